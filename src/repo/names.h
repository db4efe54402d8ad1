/* SPDX-License-Identifier: Apache-2.0 */

/* A listing of the store in memory, sorted by name. */
#ifndef CAIRN_REPO_NAMES_H
#define CAIRN_REPO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"
#include "repo/repo_store.h"

struct cairn_err;

struct repo_named {
	struct repo_id name;
	uint64_t size;
};

struct repo_names {
	struct repo_named *items;
	size_t n, cap;
};

/* More files of one kind than this are an error: an endless listing must not
 * take all memory. */
#define REPO_NAMES_MAX ((size_t)64 << 20)

int repo_names_list(struct repo_store *store, enum repo_file kind, struct repo_names *ret,
		    struct cairn_err *err);
/* Appends without sorting; repo_names_find() does not work until the list is
 * sorted. */
int repo_names_add(struct repo_names *names, const struct repo_named *name, struct cairn_err *err);
void repo_names_sort(struct repo_names *names);
int repo_names_copy(const struct repo_names *names, struct repo_names *ret, struct cairn_err *err);
void repo_names_done(struct repo_names *names);

/* NULL when it is not there. */
const struct repo_named *repo_names_find(const struct repo_names *names, const struct repo_id *id);

#endif
