/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/repo_impl.h"

/* Gaps of up to GAP_MAX between two blobs are read and discarded, which is cheaper than a
 * second request. READ_MAX is the limit of one request. */
#define GAP_MAX  (128U << 10)
#define READ_MAX (16U << 20)

struct want {
	size_t i; /* index in the caller's list */
	struct repo_place place;
};

static int by_place(const void *a, const void *b)
{
	const struct want *x = a, *y = b;

	if (x->place.pack != y->place.pack)
		return x->place.pack < y->place.pack ? -1 : 1;
	if (x->place.offset != y->place.offset)
		return x->place.offset < y->place.offset ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

static uint64_t end_of(const struct want *want)
{
	return (uint64_t)want->place.offset + want->place.length;
}

/* Returns how many of the blobs from wants[0] on can be read with one request. */
static size_t blob_many_run_of(const struct want *wants, size_t n)
{
	uint64_t start = wants[0].place.offset, end = end_of(&wants[0]);
	size_t count = 1;

	for (; count < n && wants[count].place.pack == wants[0].place.pack; count++) {
		uint64_t next = end_of(&wants[count]) > end ? end_of(&wants[count]) : end;

		if (wants[count].place.offset > end + GAP_MAX || next - start > READ_MAX)
			break;
		end = next;
	}
	return count;
}

/* Where the blobs go: either into buffers or to a function. */
struct getting {
	struct repo *repo;
	enum repo_blob_type type;
	struct repo_codec *codec;
	const struct repo_id *ids;
	const struct repo_blob_room *rooms;
	repo_blob_take_fn *take;
	void *arg;
};

/* Opens one blob into its destination. `rc` is the result of reading it. */
static int blob_many_open_one(const struct getting *getting, const struct want *want,
			      uint8_t *sealed, int rc, uint8_t **ret_out, struct cairn_err *err)
{
	const struct repo_id *id = &getting->ids[want->i];
	uint32_t size = repo_place_size(&want->place);
	uint8_t *out = getting->rooms ? getting->rooms[want->i].at
				      : repo_codec_plain_room(getting->codec, size);

	if (!out)
		return cairn_err_nomem(err, "blobs");
	*ret_out = out;
	if (rc == 0)
		rc = repo_blob_open(getting->codec, id, &want->place, sealed, out, err);
	return rc < 0 ? repo_blob_get_copy(getting->repo, getting->type, id, out, size, rc) : 0;
}

static int check_room(const struct getting *getting, const struct want *want, struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];

	if (!getting->rooms || getting->rooms[want->i].n == repo_place_size(&want->place))
		return 0;
	return cairn_err_set(err, CAIRN_DATA_LOSS, "blob %s has another length",
			     repo_id_format(&getting->ids[want->i], hex));
}

static bool is_repeated(const struct getting *getting, const struct want *wants, size_t i)
{
	return i > 0 && repo_id_equal(&getting->ids[wants[i].i], &getting->ids[wants[i - 1].i]);
}

/* True if the blob and the next one, of the same size, can be opened and hashed together: both have
 * places of their own. */
static bool are_pair(const struct getting *getting, const struct want *wants, size_t i, size_t n)
{
	return getting->rooms && i + 1 < n && !is_repeated(getting, wants, i) &&
	       !is_repeated(getting, wants, i + 1) &&
	       repo_place_size(&wants[i].place) == repo_place_size(&wants[i + 1].place);
}

static int blob_many_open_pair(const struct getting *getting, const struct want *pair,
			       uint8_t *first, uint8_t **ret_out, struct cairn_err *err)
{
	uint8_t *sealed[2] = {first, first + (pair[1].place.offset - pair[0].place.offset)};
	struct repo_blob_opening openings[2];
	struct cairn_err errs[2] = {{0}};
	int rc[2];

	for (int i = 0; i < 2; i++) {
		int room = check_room(getting, &pair[i], err);

		if (room < 0)
			return room;
		openings[i] = (struct repo_blob_opening){.id = &getting->ids[pair[i].i],
							 .place = &pair[i].place,
							 .sealed = sealed[i],
							 .out = getting->rooms[pair[i].i].at};
	}
	repo_blob_open_pair(getting->codec, openings, rc, errs);
	for (int i = 0; i < 2; i++) {
		if (rc[i] < 0)
			rc[i] = repo_blob_get_copy(getting->repo, getting->type, openings[i].id,
						   openings[i].out,
						   repo_place_size(openings[i].place), rc[i]);
		if (rc[i] < 0)
			return cairn_err_set(err, rc[i], "%s", errs[i].msg);
	}
	*ret_out = openings[1].out;
	return 0;
}

static int open_next(const struct getting *getting, const struct want *wants, size_t i,
		     uint8_t *sealed, int read, uint8_t **out, struct cairn_err *err)
{
	const struct want *want = &wants[i];
	uint64_t size = repo_place_size(&want->place);
	int rc = check_room(getting, want, err);

	/* Opening overwrites the sealed bytes, so a repeated blob is copied from its first
	 * destination. */
	if (rc == 0 && !is_repeated(getting, wants, i))
		rc = blob_many_open_one(getting, want, sealed, read, out, err);
	else if (rc == 0 && !*out)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "a repeated blob has no first destination");
	else if (rc == 0 && getting->rooms)
		memcpy(getting->rooms[want->i].at, *out, size);
	if (rc == 0 && getting->take)
		rc = getting->take(getting->arg, want->i, *out, size, err);
	return rc;
}

/* Opens the blobs in `sealed`, which begins at the first of `wants`; `read` is the result
 * of reading them. */
static int open_run(const struct getting *getting, const struct want *wants, size_t n,
		    uint8_t *sealed, int read, struct cairn_err *err)
{
	uint8_t *out = NULL;
	size_t count;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i += count) {
		uint8_t *at = sealed + (wants[i].place.offset - wants[0].place.offset);

		count = read == 0 && are_pair(getting, wants, i, n) ? 2 : 1;
		rc = count == 2 ? blob_many_open_pair(getting, &wants[i], at, &out, err)
				: open_next(getting, wants, i, at, read, &out, err);
	}
	return rc;
}

static int take_singly(const struct getting *getting, const struct want *wants, size_t n,
		       struct cairn_err *err);

static int take_run(const struct getting *getting, const struct want *wants, size_t n,
		    struct cairn_err *err)
{
	uint64_t start = wants[0].place.offset, end = 0;
	uint8_t *sealed;
	int rc;

	for (size_t i = 0; i < n; i++)
		end = end_of(&wants[i]) > end ? end_of(&wants[i]) : end;
	sealed = repo_codec_sealed_room(getting->codec, end - start);
	if (!sealed)
		return cairn_err_nomem(err, "blobs");
	rc = repo_read(getting->repo, &wants[0].place.pack_id, start, sealed, end - start, err);
	/* A truncated pack still has its first blobs: request each one separately. */
	if (rc == CAIRN_DATA_LOSS && n > 1)
		return take_singly(getting, wants, n, err);
	return rc < 0 && rc != CAIRN_DATA_LOSS ? rc : open_run(getting, wants, n, sealed, rc, err);
}

static int take_singly(const struct getting *getting, const struct want *wants, size_t n,
		       struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = take_run(getting, &wants[i], 1, err);
	return rc;
}

static int blob_many_get_all(struct getting *getting, size_t n, struct cairn_err *err)
{
	cairn_auto_free struct want *wants = cairn_calloc(n, sizeof(*wants));
	struct repo *repo = getting->repo;
	int rc = 0;

	if (!wants)
		return cairn_err_nomem(err, "blobs");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		wants[i].i = i;
		rc = repo_blob_place(repo, getting->type, &getting->ids[i], &wants[i].place, err);
	}
	if (rc == 0)
		rc = repo_codec_get(&repo->codecs, &getting->codec, err);
	if (rc < 0)
		return rc;
	qsort(wants, n, sizeof(*wants), by_place);
	for (size_t i = 0, count; rc == 0 && i < n; i += count) {
		count = blob_many_run_of(wants + i, n - i);
		rc = take_run(getting, wants + i, count, err);
	}
	repo_codec_put(&repo->codecs, getting->codec);
	return rc;
}

int repo_blob_get_many(struct repo *repo, const struct repo_id *ids, size_t n,
		       repo_blob_take_fn *take, void *arg, struct cairn_err *err)
{
	struct getting getting = {.repo = repo, .ids = ids, .take = take, .arg = arg};

	return blob_many_get_all(&getting, n, err);
}

int repo_tree_get_many(struct repo *repo, const struct repo_id *ids, size_t n,
		       repo_blob_take_fn *take, void *arg, struct cairn_err *err)
{
	struct getting getting = {
		.repo = repo, .type = REPO_BLOB_TREE, .ids = ids, .take = take, .arg = arg};

	return blob_many_get_all(&getting, n, err);
}

int repo_blob_get_into(struct repo *repo, const struct repo_id *ids,
		       const struct repo_blob_room *rooms, size_t n, struct cairn_err *err)
{
	struct getting getting = {.repo = repo, .ids = ids, .rooms = rooms};

	return blob_many_get_all(&getting, n, err);
}
