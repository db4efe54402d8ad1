/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/parent.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/image.h"
#include "backup/layout.h"
#include "backup/source.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/presence.h"
#include "repo/repo.h"
#include "repo/repo_cache.h"
#include "repo/repo_snapshot.h"

#define TRIES_MAX 8U /* candidates that are tried; each costs reading a tree */

void backup_parent_done(struct parent *parent)
{
	free(parent->snapshot_id);
	free(parent->snapshot_name);
	backup_chunk_map_done(&parent->map);
	backup_segments_done(&parent->segments);
	free(parent->segments_lost);
	backup_layout_free(parent->layout);
	*parent = (struct parent){0};
}

uint64_t backup_parent_size(const struct parent *parent)
{
	return parent->segmented ? parent->segments.size : parent->map.size;
}

void backup_say(const struct backup_talk *talk, const char *fmt, ...)
{
	char text[CAIRN_ERR_TEXT_MAX];
	va_list args;

	if (!talk || !talk->say)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	talk->say(talk->arg, text);
}

/* A backup and the snapshot that it was made from. */
struct candidate {
	const struct repo_snapshot *snapshot;
	struct backup_record record;
};

struct search {
	struct repo *repo;
	struct backup_source *source;
	struct zeros *zeros;
	const struct backup_talk *talk;
	struct candidate *candidates; /* by snapshot id, the newest last */
	size_t n;
	unsigned tries;
	uint64_t cut_ns; /* when the ancestor that is tried was cut; 0: not known */
	struct parent *parent;
};

static int by_snapshot(const void *a, const void *b)
{
	const struct candidate *left = a;
	const struct candidate *right = b;
	int order = strcmp(left->record.snapshot_id, right->record.snapshot_id);

	if (order)
		return order;
	return (left->snapshot->time_ns > right->snapshot->time_ns) -
	       (left->snapshot->time_ns < right->snapshot->time_ns);
}

/* Result of reading all lists of a segmented image. */
struct segment_walk {
	uint64_t *lost; /* a bit for each segment */
	uint64_t chunks, data_bytes;
	struct layout *layout; /* or NULL */
};

static void survey_done(struct segment_walk *survey)
{
	free(survey->lost);
	backup_layout_free(survey->layout);
}

static int see_segment(void *arg, uint64_t number, const struct repo_id *leaf,
		       const struct chunk_map *map, struct cairn_err *err)
{
	struct segment_walk *survey = arg;

	if (survey->layout)
		backup_layout_set(survey->layout, number, leaf, map->at, map->n);
	if (map->lost > 0 || map->lost_zeros > 0)
		survey->lost[number / 64] |= 1ULL << number % 64;
	for (size_t i = 0; i < map->n; i++) {
		survey->chunks += map->at[i].kind != CHUNK_ZERO;
		survey->data_bytes += map->at[i].kind != CHUNK_ZERO ? map->at[i].length : 0;
	}
	return backup_chunk_map_check(map, err);
}

/* Unless the local cache proves that the image is complete, its lists must be read. */
static int look_at_segments(struct search *search, const struct candidate *candidate,
			    struct image *image, struct segment_walk *survey, struct cairn_err *err)
{
	struct segments *segments = &image->segments;
	uint64_t length = segments->segment;
	uint64_t count = backup_segments_count(segments->size, length);

	if (length < SEGMENT_MIN || length > SEGMENT_BYTES || (length & (length - 1)) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION, "its segments are not Cairn's");
	if (image->metadata.chunk_n &&
	    repo_cache_is_whole(search->repo, &candidate->snapshot->tree)) {
		survey->chunks = image->metadata.chunk_n;
		survey->data_bytes = image->metadata.data_bytes;
		survey->layout = backup_layout_load(search->repo, &segments->top, count);
		return 0;
	}
	survey->layout = backup_layout_new(count, NULL);
	survey->lost = cairn_calloc(count / 64 + 1, sizeof(*survey->lost));
	if (!survey->lost)
		return cairn_err_nomem(err, "segments");
	return backup_segments_walk(search->repo, search->zeros, segments, see_segment, survey,
				    err);
}

static int check_image(struct search *search, const struct candidate *candidate,
		       struct image *image, struct segment_walk *survey, struct cairn_err *err)
{
	int rc = backup_image_check(image, err);

	if (!rc)
		rc = backup_chunk_map_check(&image->map, err);
	if (!rc && image->size > search->source->size)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "the volume was longer then");
	if (!rc && !image->metadata_lost &&
	    strcmp(image->metadata.snapshot_id, candidate->record.snapshot_id) != 0)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "its metadata and its tags disagree");
	if (!rc && !image->metadata_lost && search->cut_ns &&
	    image->metadata.snapshot_time_ns != search->cut_ns)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "its snapshot has the same id and another time: the pool was "
				   "copied, or is an older state of itself");
	if (!rc && image->segmented)
		rc = look_at_segments(search, candidate, image, survey, err);
	return rc;
}

/* Moves the lists of the image to the parent. */
static void take_image(struct parent *parent, struct image *image)
{
	parent->map = image->map;
	parent->segmented = image->segmented;
	parent->segments = image->segments;
	parent->hand = image->metadata.merge_hand;
	image->map = (struct chunk_map){0};
	image->segments = (struct segments){0};
}

static int parent_load(struct search *search, const struct candidate *candidate,
		       struct cairn_err *err)
{
	cairn_cleanup(backup_image_done) struct image image = {0};
	cairn_cleanup(survey_done) struct segment_walk survey = {0};
	struct parent *parent = search->parent;
	int rc = backup_image_open_parent(search->repo, candidate->snapshot, search->zeros, &image,
					  err);

	if (!rc)
		rc = check_image(search, candidate, &image, &survey, err);
	if (rc)
		return rc;
	parent->snapshot_id = cairn_strdup(candidate->record.snapshot_id);
	parent->snapshot_name = cairn_strdup(candidate->record.snapshot);
	if (!parent->snapshot_id || !parent->snapshot_name)
		return cairn_err_nomem(err, "parent");
	parent->found = true;
	parent->backup = candidate->snapshot->id;
	parent->tree = candidate->snapshot->tree;
	/* The backup began after the snapshot was cut. Without metadata that is the best
	 * upper bound of the snapshot's time. */
	parent->snapshot_time_ns = image.metadata_lost ? (uint64_t)candidate->snapshot->time_ns
						       : image.metadata.snapshot_time_ns;
	parent->segments_lost = cairn_take(survey.lost);
	parent->layout = cairn_take(survey.layout);
	parent->chunks = survey.chunks;
	parent->data_bytes = survey.data_bytes;
	take_image(parent, &image);
	return 0;
}

/* Returns 1 if the candidate becomes the parent, 0 to continue the search. */
static int parent_try(struct search *search, const struct candidate *candidate,
		      struct cairn_err *err)
{
	char id[REPO_ID_TEXT_MAX];
	struct cairn_err why = {0};
	int rc;

	if (search->tries++ == TRIES_MAX)
		return 0;
	rc = parent_load(search, candidate, &why);
	if (rc == CAIRN_NO_SPACE || rc == CAIRN_UNAVAILABLE || rc == CAIRN_CANCELLED) {
		if (err)
			*err = why;
		return rc;
	}
	if (rc) {
		repo_id_format(&candidate->snapshot->id, id);
		backup_say(search->talk, "backup %.8s cannot be built upon: %s", id, why.msg);
		return repo_drop_doubted(search->repo, err);
	}
	return 1;
}

/* Called for each ancestor, nearest first. */
static int try_ancestor(void *arg, const char *snapshot_id, uint64_t created_ns,
			struct cairn_err *err)
{
	struct search *search = arg;
	size_t low = 0;
	size_t high = search->n;

	search->cut_ns = created_ns;
	while (low < high) { /* find the first candidate after that id */
		size_t middle = (low + high) / 2;

		if (strcmp(search->candidates[middle].record.snapshot_id, snapshot_id) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low > 0; low--) {
		const struct candidate *candidate = &search->candidates[low - 1];
		int rc;

		if (strcmp(candidate->record.snapshot_id, snapshot_id) != 0)
			return 0;
		rc = parent_try(search, candidate, err);
		if (rc) {
			search->parent->ancestor = rc > 0;
			return rc;
		}
	}
	return search->tries >= TRIES_MAX;
}

/* Orders by time. The order within the same time is arbitrary, but fixed. */
static bool is_before(const struct candidate *a, const struct candidate *b)
{
	if (a->snapshot->time_ns != b->snapshot->time_ns)
		return a->snapshot->time_ns < b->snapshot->time_ns;
	return a < b;
}

/* The newest backup of the same volume before `last`; the newest of all if that is NULL. */
static const struct candidate *next_relative(const struct search *search,
					     const struct candidate *last)
{
	const struct candidate *newest = NULL;

	for (size_t i = 0; i < search->n; i++) {
		const struct candidate *candidate = &search->candidates[i];

		if (strcmp(candidate->record.volume_id, search->source->volume_id) == 0 &&
		    (!last || is_before(candidate, last)) &&
		    (!newest || is_before(newest, candidate)))
			newest = candidate;
	}
	return newest;
}

/* Tries any backup of the same volume: its chunk boundaries are still useful. A source
 * without lineage is asked for the changes against it, and reports itself if they are
 * unknown; but not against a younger snapshot, for which a driver that counts
 * generations would report no changes. */
static int try_relatives(struct search *search, struct cairn_err *err)
{
	const struct backup_source *source = search->source;
	const struct candidate *at = NULL;
	const struct candidate *younger = NULL;
	int rc = 0;

	search->cut_ns = 0;
	while (rc == 0 && search->tries < TRIES_MAX && (at = next_relative(search, at))) {
		rc = parent_try(search, at, err);
		if (rc <= 0 || source->ops->lineage)
			continue;
		search->parent->ancestor =
			!source->dated || search->parent->snapshot_time_ns <= source->created_ns;
		if (search->parent->ancestor)
			break;
		younger = younger ? younger : at;
		backup_parent_done(search->parent);
		rc = 0;
	}
	if (rc == 0 && younger) {
		search->tries = 0;
		rc = parent_try(search, younger, err);
	}
	return rc;
}

static int parent_collect(struct search *search, const struct repo_snapshot_list *list,
			  const struct repo_snapshot *wanted, struct cairn_err *err)
{
	search->candidates = cairn_calloc(list->n + 1, sizeof(*search->candidates));
	if (!search->candidates)
		return cairn_err_nomem(err, "list of backups");
	for (size_t i = 0; i < list->n; i++) {
		struct candidate candidate = {list->items[i], backup_record_of(list->items[i])};

		if (candidate.record.ours && *candidate.record.snapshot_id &&
		    (!wanted || repo_id_equal(&wanted->id, &list->items[i]->id)))
			search->candidates[search->n++] = candidate;
	}
	qsort(search->candidates, search->n, sizeof(*search->candidates), by_snapshot);
	return 0;
}

/* Warns of backups with a time in the future. The search does not depend on times, but
 * retention rules and users do. */
static void say_to_come(const struct search *search)
{
	int64_t now = (int64_t)cairn_now_ns();
	size_t n = 0;

	for (size_t i = 0; i < search->n; i++)
		n += strcmp(search->candidates[i].record.volume_id, search->source->volume_id) ==
			     0 &&
		     search->candidates[i].snapshot->time_ns > now;
	if (n)
		backup_say(
			search->talk,
			"%zu backup%s of this volume %s dated in the future: the clock is wrong, "
			"or was",
			n, n == 1 ? "" : "s", n == 1 ? "is" : "are");
}

static int parent_look(struct search *search, const struct repo_snapshot_list *list,
		       const struct repo_snapshot *wanted, struct cairn_err *err)
{
	struct backup_source *source = search->source;
	int rc = parent_collect(search, list, wanted, err);

	if (list->damaged)
		backup_say(search->talk, "%zu backups cannot be read: %s", list->damaged,
			   list->damaged_text);
	if (!rc)
		say_to_come(search);
	if (!rc && source->ops->lineage)
		rc = source->ops->lineage(source, try_ancestor, search, err);
	if (!rc && !search->parent->found)
		rc = try_relatives(search, err);
	return rc < 0 ? rc : 0;
}

int backup_parent_find(struct repo *repo, struct backup_source *source,
		       const struct repo_snapshot *wanted, struct zeros *zeros,
		       const struct backup_talk *talk, struct parent *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	cairn_cleanup(backup_parent_done) struct parent parent = {0};
	struct search search = {
		.repo = repo,
		.source = source,
		.zeros = zeros,
		.talk = talk,
		.parent = &parent,
	};
	int rc = repo_snapshot_list(repo, &list, err);

	if (!rc)
		rc = parent_look(&search, &list, wanted, err);
	free(search.candidates);
	if (rc)
		return rc;
	*ret = parent;
	parent = (struct parent){0};
	return 0;
}
