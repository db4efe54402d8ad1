/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/content.h"
#include "backup/segment_impl.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/blob.h"
#include "repo/repo.h"
#include "repo/tree.h"

#define LISTS_AT_ONCE  64U /* lists that a thread requests together */
#define GROUPS_AT_ONCE 4U  /* groups in memory while an image is walked */

const char *backup_segment_name(unsigned digits, size_t number, char out[SEGMENT_NAME_MAX])
{
	snprintf(out, SEGMENT_NAME_MAX, "%0*zu", (int)digits, number);
	return out;
}

void backup_segments_done(struct segments *segments)
{
	free(segments->groups);
	*segments = (struct segments){0};
}

uint64_t backup_segments_count(uint64_t size, uint64_t segment)
{
	return size / segment + (size % segment != 0);
}

size_t backup_segments_in_group(uint64_t count, uint64_t group)
{
	uint64_t left = count - group * SEGMENT_GROUP;

	return left < SEGMENT_GROUP ? (size_t)left : SEGMENT_GROUP;
}

uint64_t backup_segments_length(const struct segments *segments, uint64_t number)
{
	uint64_t left = segments->size - number * segments->segment;

	return left < segments->segment ? left : segments->segment;
}

/* ---- directories ------------------------------------------------------------- */

struct listing {
	unsigned digits;
	struct repo_id *ids;
	size_t n, room, max;
};

static int add_directory(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct listing *listing = arg;
	char name[SEGMENT_NAME_MAX];

	if (node->type != REPO_NODE_DIR || listing->n == listing->max ||
	    strcmp(node->name, backup_segment_name(listing->digits, listing->n, name)) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' is not a segment", node->name);
	if (listing->n == listing->room) {
		size_t room = listing->room ? 2 * listing->room : SEGMENT_GROUP;
		void *more = cairn_realloc_array(listing->ids, room, sizeof(*listing->ids));

		if (!more)
			return cairn_err_nomem(err, "segments");
		listing->ids = more;
		listing->room = room;
	}
	listing->ids[listing->n++] = node->subtree;
	return 0;
}

static int read_directory(struct repo *repo, const struct repo_id *tree, struct listing *listing,
			  struct cairn_err *err)
{
	const struct repo_tree_visitor visitor = {.node = add_directory, .arg = listing};

	return repo_tree_read(repo, tree, &visitor, err);
}

static int read_leaves(struct repo *repo, const struct repo_id *group, struct listing *ret,
		       struct cairn_err *err)
{
	*ret = (struct listing){.digits = SEGMENT_LEAF_DIGITS, .max = SEGMENT_GROUP};
	return read_directory(repo, group, ret, err);
}

int backup_segments_leaves(struct repo *repo, const struct segments *segments, uint64_t group,
			   struct repo_id *ret, struct cairn_err *err)
{
	size_t want = backup_segments_in_group(
		backup_segments_count(segments->size, segments->segment), group);
	struct listing listing;
	int rc = read_leaves(repo, &segments->groups[group], &listing, err);

	if (!rc && listing.n != want)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "group %" PRIu64 " has %zu segments, not %zu", group, listing.n,
				   want);
	if (!rc)
		memcpy(ret, listing.ids, want * sizeof(*ret));
	free(listing.ids);
	return rc;
}

/* Returns the length of the file in a segment's tree. */
static int measure_leaf(struct repo *repo, const struct repo_id *leaf, uint64_t *ret,
			struct cairn_err *err)
{
	struct segment_list list = {0};
	int rc = backup_segment_lists_load(repo, leaf, 1, &list, err);

	*ret = list.size;
	backup_segment_lists_done(&list, 1);
	return rc;
}

/* Reads the sizes, from the trees alone. */
static int segment_measure(struct repo *repo, struct segments *segments, struct cairn_err *err)
{
	struct listing first, last = {0};
	uint64_t tail = 0;
	int rc = read_leaves(repo, &segments->groups[0], &first, err);

	if (!rc)
		rc = read_leaves(repo, &segments->groups[segments->n_groups - 1], &last, err);
	if (!rc && (first.n == 0 || last.n == 0))
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "a group without segments");
	if (!rc)
		rc = measure_leaf(repo, &first.ids[0], &segments->segment, err);
	if (!rc)
		rc = measure_leaf(repo, &last.ids[last.n - 1], &tail, err);
	if (!rc)
		segments->size = ((segments->n_groups - 1) * SEGMENT_GROUP + last.n - 1) *
					 segments->segment +
				 tail;
	free(first.ids);
	free(last.ids);
	return rc;
}

static int read_groups(struct repo *repo, struct segments *segments, struct cairn_err *err)
{
	struct listing listing = {.digits = SEGMENT_GROUP_DIGITS, .max = SEGMENT_GROUPS_MAX};
	int rc = read_directory(repo, &segments->top, &listing, err);

	if (!rc && listing.n == 0)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "no segments");
	if (rc) {
		free(listing.ids);
		return rc;
	}
	segments->groups = listing.ids;
	segments->n_groups = listing.n;
	return 0;
}

int backup_segments_read_groups(struct repo *repo, struct segments *segments, struct cairn_err *err)
{
	size_t want = segments->n_groups;
	int rc;

	if (segments->groups)
		return 0;
	rc = read_groups(repo, segments, err);
	if (rc || segments->n_groups == want)
		return rc;
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%zu groups of segments of %" PRIu64
			     " bytes do not make an image of %" PRIu64 " bytes",
			     segments->n_groups, segments->segment, segments->size);
}

/* Returns the number of groups of an image; 0 if the sizes are invalid. */
static size_t groups_for(uint64_t size, uint64_t segment)
{
	uint64_t count = segment > 0 ? backup_segments_count(size, segment) : 0;
	uint64_t groups = count / SEGMENT_GROUP + (count % SEGMENT_GROUP != 0);

	return segment <= CHUNK_ZERO_MAX && groups <= SEGMENT_GROUPS_MAX ? (size_t)groups : 0;
}

int backup_segments_open(struct repo *repo, const struct repo_id *top, uint64_t size,
			 uint64_t segment, struct segments *ret, struct cairn_err *err)
{
	cairn_cleanup(backup_segments_done) struct segments segments = {
		.top = *top, .size = size, .segment = segment};
	int rc = 0;

	if (segment == 0) {
		rc = read_groups(repo, &segments, err);
		if (!rc)
			rc = segment_measure(repo, &segments, err);
	} else {
		segments.n_groups = groups_for(size, segment);
	}
	if (!rc && (segments.n_groups == 0 ||
		    segments.n_groups != groups_for(segments.size, segments.segment)))
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "its segments do not make an image");
	if (rc)
		return rc;
	*ret = segments;
	segments = (struct segments){0};
	return 0;
}

/* ---- lists ------------------------------------------------------------------- */

void backup_segment_lists_done(struct segment_list *lists, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(lists[i].ids);
		lists[i] = (struct segment_list){0};
	}
}

struct parsing {
	struct segment_list *list;
	bool file;
	size_t room;
};

static int take_node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct parsing *parsing = arg;

	if (parsing->file || node->type != REPO_NODE_FILE ||
	    strcmp(node->name, SEGMENT_FILE_NAME) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' in a segment", node->name);
	parsing->file = true;
	parsing->list->size = node->size;
	return 0;
}

static int take_ids(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct parsing *parsing = arg;
	struct segment_list *list = parsing->list;

	if (list->n + n > parsing->room) {
		size_t room = 2 * parsing->room + n;
		void *more = cairn_realloc_array(list->ids, room, sizeof(*ids));

		if (!more)
			return cairn_err_nomem(err, "segments");
		list->ids = more;
		parsing->room = room;
	}
	memcpy(&list->ids[list->n], ids, n * sizeof(*ids));
	list->n += n;
	return 0;
}

struct loading {
	struct repo *repo;
	const struct repo_id *leaves;
	size_t n;
	struct segment_list *lists;
};

/* The lists that one thread requests. */
struct share {
	const struct loading *loading;
	size_t first;
};

static int segment_parse_list(void *arg, size_t i, const uint8_t *data, size_t n,
			      struct cairn_err *err)
{
	const struct share *share = arg;
	struct parsing parsing = {.list = &share->loading->lists[share->first + i]};
	const struct repo_tree_visitor visitor = {
		.node = take_node, .content = take_ids, .arg = &parsing};
	int rc = repo_tree_parse((const char *)data, n, &visitor, err);

	if (!rc && !parsing.file)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "a segment without a file");
	return rc;
}

static int load_share(void *arg, size_t i, struct cairn_err *err)
{
	const struct loading *loading = arg;
	struct share share = {.loading = loading, .first = i * LISTS_AT_ONCE};
	size_t left = loading->n - share.first;
	struct cairn_err why = {0};
	int rc = repo_tree_get_many(loading->repo, loading->leaves + share.first,
				    left < LISTS_AT_ONCE ? left : LISTS_AT_ONCE, segment_parse_list,
				    &share, &why);

	if (rc == CAIRN_NOT_FOUND) /* it is missing although something refers to it */
		rc = CAIRN_DATA_LOSS;
	return rc ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

int backup_segment_lists_load(struct repo *repo, const struct repo_id *leaves, size_t n,
			      struct segment_list *lists, struct cairn_err *err)
{
	struct loading loading = {.repo = repo, .leaves = leaves, .n = n, .lists = lists};

	memset(lists, 0, n * sizeof(*lists));
	return cairn_parallel_each((n + LISTS_AT_ONCE - 1) / LISTS_AT_ONCE,
				   repo_get_store(repo)->connections, load_share, &loading, err);
}

int backup_segment_list_chunks(struct repo *repo, struct zeros *zeros,
			       const struct segment_list *list, uint64_t length,
			       struct chunk_map *map, struct cairn_err *err)
{
	uint64_t before = map->size;
	int rc = backup_content_add(repo, zeros, map, list->ids, list->n, err);

	if (!rc && (list->size != length || map->size - before != length))
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "a segment has %" PRIu64 " bytes, not %" PRIu64,
				   map->size - before, length);
	return rc;
}

/* ---- all segments ------------------------------------------------------------ */

struct walking {
	struct repo *repo;
	struct zeros *zeros;
	const struct segments *segments;
	int (*fn)(void *arg, uint64_t number, const struct repo_id *leaf,
		  const struct chunk_map *map, struct cairn_err *err);
	void *arg;
	struct repo_id leaves[GROUPS_AT_ONCE * SEGMENT_GROUP];
	struct segment_list lists[GROUPS_AT_ONCE * SEGMENT_GROUP];
};

static int segment_visit(struct walking *walking, uint64_t first, size_t n, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		cairn_cleanup(backup_chunk_map_done) struct chunk_map map = {0};

		rc = backup_segment_list_chunks(
			walking->repo, walking->zeros, &walking->lists[i],
			backup_segments_length(walking->segments, first + i), &map, err);
		if (!rc)
			rc = walking->fn(walking->arg, first + i, &walking->leaves[i], &map, err);
	}
	return rc;
}

static int walk_groups(struct walking *walking, uint64_t group, uint64_t end, struct cairn_err *err)
{
	const struct segments *segments = walking->segments;
	uint64_t count = backup_segments_count(segments->size, segments->segment);
	uint64_t first = group * SEGMENT_GROUP;
	size_t n = 0;
	int rc = 0;

	for (; group < end && !rc; group++) {
		rc = backup_segments_leaves(walking->repo, segments, group, walking->leaves + n,
					    err);
		n += backup_segments_in_group(count, group);
	}
	if (rc)
		return rc;
	rc = backup_segment_lists_load(walking->repo, walking->leaves, n, walking->lists, err);
	if (!rc)
		rc = segment_visit(walking, first, n, err);
	backup_segment_lists_done(walking->lists, n);
	return rc;
}

int backup_segments_walk(struct repo *repo, struct zeros *zeros, struct segments *segments,
			 int (*fn)(void *arg, uint64_t number, const struct repo_id *leaf,
				   const struct chunk_map *map, struct cairn_err *err),
			 void *arg, struct cairn_err *err)
{
	cairn_auto_free struct walking *walking = cairn_calloc(1, sizeof(*walking));
	int rc = backup_segments_read_groups(repo, segments, err);

	if (rc)
		return rc;
	if (!walking)
		return cairn_err_nomem(err, "segments");
	walking->repo = repo;
	walking->zeros = zeros;
	walking->segments = segments;
	walking->fn = fn;
	walking->arg = arg;
	for (uint64_t group = 0; group < segments->n_groups && !rc; group += GROUPS_AT_ONCE) {
		uint64_t end = group + GROUPS_AT_ONCE;

		rc = walk_groups(walking, group,
				 end < segments->n_groups ? end : segments->n_groups, err);
	}
	return rc;
}
