/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/names.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

void repo_names_done(struct repo_names *names)
{
	free(names->items);
	*names = (struct repo_names){0};
}

static int names_add(void *arg, const struct repo_id *name, uint64_t size, struct cairn_err *err)
{
	struct repo_names *names = arg;

	if (names->n == names->cap) {
		size_t cap = names->cap ? names->cap * 2 : 64;
		struct repo_named *items =
			cap > REPO_NAMES_MAX
				? NULL
				: cairn_realloc_array(names->items, cap, sizeof(*items));

		if (!items)
			return cairn_err_nomem(err, "a listing");
		names->items = items;
		names->cap = cap;
	}
	names->items[names->n++] = (struct repo_named){.name = *name, .size = size};
	return 0;
}

int repo_names_add(struct repo_names *names, const struct repo_named *name, struct cairn_err *err)
{
	return names_add(names, &name->name, name->size, err);
}

static int names_by_name(const void *a, const void *b)
{
	const struct repo_named *x = a, *y = b;

	return repo_id_compare(&x->name, &y->name);
}

void repo_names_sort(struct repo_names *names)
{
	if (names->n > 0)
		qsort(names->items, names->n, sizeof(names->items[0]), names_by_name);
}

int repo_names_copy(const struct repo_names *names, struct repo_names *ret, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < names->n; i++)
		rc = names_add(ret, &names->items[i].name, names->items[i].size, err);
	return rc;
}

int repo_names_list(struct repo_store *store, enum repo_file kind, struct repo_names *ret,
		    struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	int rc = repo_store_list(store, kind, names_add, &names, err);

	if (rc < 0)
		return rc;
	repo_names_sort(&names);
	*ret = names;
	names = (struct repo_names){0};
	return 0;
}

const struct repo_named *repo_names_find(const struct repo_names *names, const struct repo_id *id)
{
	struct repo_named key = {.name = *id};

	return names->n ? bsearch(&key, names->items, names->n, sizeof(key), names_by_name) : NULL;
}
