/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/listing_run.h"

#include <cairn/client.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/ticker.h"
#include "client/mirror.h"
#include "pool/store/store.h"

#define LOOK_MS 100

static int listing_run_failed(const struct cairn_client_error *error, struct cairn_err *err)
{
	return cairn_err_set(err, error->code, "%s", error->message);
}

/* --- listings that an interrupt can end while their thread waits --- */

#define LISTINGS_MAX 2

struct guard {
	bool (*cancelled)(void *arg);
	void *arg;
	struct cairn_client *client;
	struct cairn_listing *listings[LISTINGS_MAX];
	size_t n;
	struct cairn_ticker ticker;
	bool running;
};

static uint64_t guard_look(void *arg)
{
	const struct guard *guard = arg;

	if (guard->cancelled(guard->arg))
		for (size_t i = 0; i < guard->n; i++)
			cairn_listing_cancel(guard->listings[i]);
	return LOOK_MS;
}

static void guard_done(struct guard *guard)
{
	if (guard->running)
		cairn_ticker_stop(&guard->ticker);
	for (size_t i = 0; i < guard->n; i++)
		cairn_listing_free(guard->listings[i]);
	cairn_client_free(guard->client);
}

/* Makes a listing of each query and begins to look for an interrupt. */
static int guard_begin(struct guard *guard, const struct cairn_client_options *options,
		       const struct cairn_listing_query *const *queries, size_t n,
		       struct cairn_err *err)
{
	struct cairn_client_error error;
	int rc;

	if (cairn_client_new(options, &guard->client, &error) < 0)
		return listing_run_failed(&error, err);
	for (; guard->n < n; guard->n++)
		if (cairn_listing_new(guard->client, queries[guard->n], &guard->listings[guard->n],
				      &error) < 0)
			return listing_run_failed(&error, err);
	rc = cairn_ticker_start(&guard->ticker, "guard", LOOK_MS, guard_look, guard, err);
	guard->running = rc == 0;
	return rc;
}

static int listing_run_take_all(struct cairn_listing *listing, const struct client_watch *watch,
				struct cairn_listing_info *info, struct cairn_err *err)
{
	struct cairn_client_error error;
	const struct cairn_block *blocks;
	size_t n;
	int rc;

	while ((rc = cairn_listing_next(listing, &blocks, &n, &error)) == 1) {
		cairn_listing_info(listing, info);
		rc = watch->message(watch->arg, info, blocks, n, err);
		if (rc < 0)
			return rc;
	}
	cairn_listing_info(listing, info);
	return rc < 0 ? listing_run_failed(&error, err) : 0;
}

int client_listing_run(const struct cairn_client_options *options,
		       const struct cairn_listing_query *query, const struct client_watch *watch,
		       struct cairn_listing_info *ret_info, struct cairn_err *err)
{
	cairn_cleanup(guard_done) struct guard guard = {.cancelled = watch->cancelled,
							.arg = watch->arg};
	int rc;

	*ret_info = (struct cairn_listing_info){.size = sizeof(*ret_info)};
	rc = guard_begin(&guard, options, &query, 1, err);
	return rc ? rc : listing_run_take_all(guard.listings[0], watch, ret_info, err);
}

/* --- two listings --- */

/* One of the two: the block that is merged next, and the message that it is from. */
struct side {
	struct cairn_listing *listing;
	const struct cairn_block *blocks;
	size_t n, at;
	uint64_t offset, end; /* equal: the next block is to be taken */
	bool is_over;
};

/* Takes the next block when the last one is used up. */
static int side_fill(struct side *side, struct cairn_err *err)
{
	struct cairn_client_error error;

	while (side->offset == side->end && !side->is_over) {
		int rc;

		if (side->at < side->n) {
			side->offset = side->blocks[side->at].offset;
			side->end = side->offset + side->blocks[side->at].length;
			side->at++;
			continue;
		}
		rc = cairn_listing_next(side->listing, &side->blocks, &side->n, &error);
		if (rc < 0)
			return listing_run_failed(&error, err);
		side->at = 0;
		side->is_over = rc == 0;
		side->n = rc == 0 ? 0 : side->n;
	}
	return 0;
}

static uint64_t side_capacity(const struct side *side)
{
	struct cairn_listing_info info = {.size = sizeof(info)};

	cairn_listing_info(side->listing, &info);
	return info.capacity;
}

/* The next segment of the two, which is removed from both; false when both are over. */
static bool pair_next(struct side sides[LISTINGS_MAX], struct client_segment *ret)
{
	uint64_t start = UINT64_MAX;
	uint64_t end = UINT64_MAX;
	bool has[LISTINGS_MAX];

	for (size_t i = 0; i < LISTINGS_MAX; i++)
		if (!sides[i].is_over && sides[i].offset < start)
			start = sides[i].offset;
	for (size_t i = 0; i < LISTINGS_MAX; i++) {
		uint64_t edge = sides[i].offset > start ? sides[i].offset : sides[i].end;

		has[i] = !sides[i].is_over && sides[i].offset == start;
		if (!sides[i].is_over && edge < end)
			end = edge;
	}
	for (size_t i = 0; i < LISTINGS_MAX; i++)
		if (has[i])
			sides[i].offset = end;
	*ret = (struct client_segment){.offset = start,
				       .length = end - start,
				       .is_changed = has[0],
				       .is_allocated = has[1]};
	return has[0] || has[1];
}

static int pair_merge(struct side sides[LISTINGS_MAX], const struct client_pair_watch *watch,
		      struct cairn_err *err)
{
	struct client_segment segment;
	bool has_begun = false;
	int rc;

	for (;;) {
		rc = side_fill(&sides[0], err);
		if (!rc)
			rc = side_fill(&sides[1], err);
		if (!rc && !has_begun) {
			uint64_t a = side_capacity(&sides[0]), b = side_capacity(&sides[1]);

			rc = watch->begin(watch->arg, a > b ? a : b, err);
			has_begun = true;
		}
		if (rc || !pair_next(sides, &segment))
			return rc;
		rc = watch->segment(watch->arg, &segment, err);
		if (rc)
			return rc;
	}
}

int client_listing_pair_run(const struct cairn_client_options *options,
			    const struct cairn_listing_query *changed,
			    const struct cairn_listing_query *allocated,
			    const struct client_pair_watch *watch, struct cairn_err *err)
{
	const struct cairn_listing_query *const queries[LISTINGS_MAX] = {changed, allocated};
	cairn_cleanup(guard_done) struct guard guard = {.cancelled = watch->cancelled,
							.arg = watch->arg};
	struct side sides[LISTINGS_MAX] = {0};
	int rc = guard_begin(&guard, options, queries, LISTINGS_MAX, err);

	for (size_t i = 0; i < LISTINGS_MAX; i++)
		sides[i].listing = guard.listings[i];
	return rc ? rc : pair_merge(sides, watch, err);
}

/* --- devices --- */

struct copying {
	struct client_mirror mirror;
	const struct store_progress *progress;
};

static int copy_message(void *arg, const struct cairn_listing_info *info,
			const struct cairn_block *blocks, size_t n, struct cairn_err *err)
{
	struct copying *copying = arg;
	int rc;

	/* Block by block, so that an interrupt need not wait for a large message. */
	for (size_t i = 0; i < n; i++) {
		rc = client_mirror_copy(&copying->mirror, &blocks[i], 1, err);
		if (rc)
			return rc;
		if (copying->progress->cancelled(copying->progress->arg))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		copying->progress->report(copying->progress->arg,
					  blocks[i].offset + blocks[i].length, info->capacity);
	}
	return 0;
}

static bool copy_cancelled(void *arg)
{
	const struct copying *copying = arg;

	return copying->progress->cancelled(copying->progress->arg);
}

static void listing_run_copying_done(struct copying *copying)
{
	client_mirror_done(&copying->mirror);
}

int client_copy_run(const struct client_copy_options *o, struct client_copy_result *ret,
		    struct cairn_err *err)
{
	cairn_cleanup(listing_run_copying_done) struct copying copying = {
		.mirror = CLIENT_MIRROR_INIT, .progress = o->copying};
	struct client_watch watch = {
		.message = copy_message, .cancelled = copy_cancelled, .arg = &copying};
	struct client_mirror_result compared;
	struct cairn_listing_info info;
	int rc = client_mirror_open(&copying.mirror, o->source, o->target, err);

	if (!rc)
		rc = client_listing_run(o->options, o->query, &watch, &info, err);
	if (!rc)
		rc = client_mirror_compare(&copying.mirror, o->comparing, &compared, err);
	if (rc)
		return rc;
	*ret = (struct client_copy_result){
		.capacity = info.capacity,
		.listed_blocks = info.blocks,
		.listed_bytes = info.bytes,
		.copied_bytes = copying.mirror.copied_bytes,
		.compared_bytes = compared.compared_bytes,
		.differing_bytes = compared.differing_bytes,
		.first_difference = compared.first,
	};
	return 0;
}
