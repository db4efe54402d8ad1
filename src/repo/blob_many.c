/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/blob.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/repo_impl.h"

/* Bytes between two blobs that are read and thrown away rather than asked for
 * apart, and what one request reads at most. */
#define GAP_MAX  (128U << 10)
#define READ_MAX (16U << 20)

struct want {
	size_t i; /* in the caller's list */
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

/* How many from wants[0] on are read together. */
static size_t run_of(const struct want *wants, size_t n)
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

struct buffers {
	uint8_t *sealed, *plain;
	size_t sealed_cap, plain_cap;
};

static void buffers_done(struct buffers *buffers)
{
	free(buffers->sealed);
	free(buffers->plain);
}

static int make_room(uint8_t **buf, size_t *cap, size_t n, struct cairn_err *err)
{
	if (*cap >= n)
		return 0;
	free(*buf);
	*buf = cairn_alloc(n);
	*cap = *buf ? n : 0;
	return *buf ? 0 : cairn_err_nomem(err, "blobs");
}

static int take_run(struct repo *repo, const struct repo_id *ids, const struct want *wants,
		    size_t n, struct buffers *buffers, repo_blob_take_fn *take, void *arg,
		    struct cairn_err *err)
{
	uint64_t start = wants[0].place.offset, end = 0;
	int rc;

	for (size_t i = 0; i < n; i++)
		end = end_of(&wants[i]) > end ? end_of(&wants[i]) : end;
	rc = make_room(&buffers->sealed, &buffers->sealed_cap, end - start, err);
	if (rc == 0)
		rc = repo_read(repo, &wants[0].place.pack_id, start, buffers->sealed, end - start,
			       err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct repo_place *place = &wants[i].place;
		const struct repo_id *id = &ids[wants[i].i];

		/* Opening overwrites the sealed bytes: a repeated one is given again. */
		if (i == 0 || !repo_id_equal(id, &ids[wants[i - 1].i])) {
			rc = make_room(&buffers->plain, &buffers->plain_cap, repo_place_size(place),
				       err);
			if (rc == 0)
				rc = repo_blob_open(repo, id, place,
						    buffers->sealed + (place->offset - start),
						    buffers->plain, err);
		}
		if (rc == 0)
			rc = take(arg, wants[i].i, buffers->plain, repo_place_size(place), err);
	}
	return rc;
}

int repo_blob_get_many(struct repo *repo, const struct repo_id *ids, size_t n,
		       repo_blob_take_fn *take, void *arg, struct cairn_err *err)
{
	cairn_cleanup(buffers_done) struct buffers buffers = {0};
	cairn_auto_free struct want *wants = cairn_calloc(n, sizeof(*wants));
	int rc = 0;

	if (!wants)
		return cairn_err_nomem(err, "blobs");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		wants[i].i = i;
		rc = repo_blob_place(repo, REPO_BLOB_DATA, &ids[i], &wants[i].place, err);
	}
	if (rc < 0)
		return rc;
	qsort(wants, n, sizeof(*wants), by_place);
	for (size_t i = 0, count; rc == 0 && i < n; i += count) {
		count = run_of(wants + i, n - i);
		rc = take_run(repo, ids, wants + i, count, &buffers, take, arg, err);
	}
	return rc;
}
