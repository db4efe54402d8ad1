/* SPDX-License-Identifier: Apache-2.0 */

/* Chooses the packs that a partial check reads. */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/random.h"
#include "repo/check_impl.h"
#include "repo/repo_impl.h"

static int no_subset(const char *text, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INVALID,
			     "'%s' is not a subset: N/M with M up to %u, P%% or a size", text,
			     REPO_SUBSET_PARTS_MAX);
}

static int parse_parts(const char *text, const char *slash, struct repo_subset *ret,
		       struct cairn_err *err)
{
	cairn_auto_free char *first = cairn_strndup(text, (size_t)(slash - text));
	uint64_t part = 0, parts = 0;

	if (!first)
		return cairn_err_nomem(err, "subset");
	if (cairn_parse_u64(first, &part, NULL) || cairn_parse_u64(slash + 1, &parts, NULL) ||
	    part < 1 || part > parts || parts > REPO_SUBSET_PARTS_MAX)
		return no_subset(text, err);
	*ret = (struct repo_subset){.part = (uint32_t)part, .parts = (uint32_t)parts};
	return 0;
}

/* "10%" or "2.5%" */
static int parse_share(const char *text, size_t n, struct repo_subset *ret, struct cairn_err *err)
{
	const char *point = memchr(text, '.', n);
	size_t whole_n = point ? (size_t)(point - text) : n;
	size_t rest_n = point ? n - whole_n - 1 : 0;
	cairn_auto_free char *whole = cairn_strndup(text, whole_n);
	cairn_auto_free char *rest = cairn_strndup(point ? point + 1 : "", rest_n);
	uint64_t percent = 0, part = 0;
	double share;

	if (!whole || !rest)
		return cairn_err_nomem(err, "subset");
	if (cairn_parse_u64(whole, &percent, NULL) || rest_n > 6 ||
	    (point && cairn_parse_u64(rest, &part, NULL)))
		return no_subset(text, err);
	share = (double)part;
	for (size_t i = 0; i < rest_n; i++)
		share /= 10;
	share = ((double)percent + share) / 100;
	if (share <= 0 || share > 1)
		return no_subset(text, err);
	*ret = (struct repo_subset){.share = share};
	return 0;
}

int repo_subset_parse(const char *text, struct repo_subset *ret, struct cairn_err *err)
{
	const char *slash = strchr(text, '/');
	size_t n = strlen(text);
	uint64_t bytes = 0;

	if (slash)
		return parse_parts(text, slash, ret, err);
	if (n > 0 && text[n - 1] == '%')
		return parse_share(text, n - 1, ret, err);
	if (cairn_parse_size(text, &bytes, NULL) || bytes == 0)
		return no_subset(text, err);
	*ret = (struct repo_subset){.bytes = bytes};
	return 0;
}

static const struct repo_named *pack_file(const struct repo_checking *checking, uint32_t pack,
					  struct repo_id *ret_id)
{
	if (repo_index_pack_at(checking->repo->index, pack, ret_id) != REPO_PACK_INDEXED)
		return NULL;
	return repo_names_find(&checking->packs, ret_id);
}

static void choose_part(struct repo_checking *checking, const struct repo_subset *subset)
{
	for (uint32_t i = 0; i < checking->order.packs; i++) {
		struct repo_id id;

		if (pack_file(checking, i, &id))
			checking->chosen[i] = id.bytes[0] % subset->parts == subset->part - 1;
	}
}

/* Chooses packs in random order until they have `bytes` bytes; at least one. */
static void take_bytes(struct repo_checking *checking, uint32_t *packs, uint32_t n, uint64_t bytes)
{
	uint64_t taken = 0;

	for (uint32_t i = 0; i < n && taken < bytes; i++) {
		struct repo_id id;

		checking->chosen[packs[i]] = true;
		taken += pack_file(checking, packs[i], &id)->size;
	}
}

static int check_subset_shuffle(uint32_t *packs, uint32_t n, struct cairn_err *err)
{
	for (uint32_t i = n; i > 1; i--) {
		uint64_t random;
		uint32_t other, kept;
		int rc = cairn_random_bytes(&random, sizeof(random), err);

		if (rc)
			return rc;
		other = (uint32_t)(random % i);
		kept = packs[i - 1];
		packs[i - 1] = packs[other];
		packs[other] = kept;
	}
	return 0;
}

static int choose_some(struct repo_checking *checking, const struct repo_subset *subset,
		       struct cairn_err *err)
{
	cairn_auto_free uint32_t *packs = cairn_calloc(checking->order.packs + 1, sizeof(*packs));
	uint64_t total = 0;
	uint32_t n = 0;
	int rc;

	if (!packs)
		return cairn_err_nomem(err, "subset");
	for (uint32_t i = 0; i < checking->order.packs; i++) {
		struct repo_id id;
		const struct repo_named *file = pack_file(checking, i, &id);

		if (!file)
			continue;
		packs[n++] = i;
		total += file->size;
	}
	rc = check_subset_shuffle(packs, n, err);
	if (rc)
		return rc;
	take_bytes(checking, packs, n,
		   subset->share > 0 ? (uint64_t)((double)total * subset->share) + 1
				     : subset->bytes);
	return 0;
}

int repo_check_choose(struct repo_checking *checking, struct cairn_err *err)
{
	const struct repo_subset *subset = &checking->options->subset;

	if (!subset->parts && !subset->bytes && subset->share <= 0)
		return 0;
	checking->chosen = cairn_calloc(checking->order.packs + 1, sizeof(bool));
	if (!checking->chosen)
		return cairn_err_nomem(err, "subset");
	if (!subset->parts)
		return choose_some(checking, subset, err);
	choose_part(checking, subset);
	return 0;
}
