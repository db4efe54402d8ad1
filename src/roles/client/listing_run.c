/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/listing_run.h"

#include <cairn/client.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/ticker.h"
#include "client/mirror.h"
#include "pool/store/store.h"

#define LOOK_MS 100

static void listing_freep(struct cairn_listing **listing)
{
	cairn_listing_free(*listing);
}

static void client_freep(struct cairn_client **client)
{
	cairn_client_free(*client);
}

static int listing_run_failed(const struct cairn_client_error *error, struct cairn_err *err)
{
	return cairn_err_set(err, error->code, "%s", error->message);
}

/* --- a listing that an interrupt can end while its thread waits --- */

struct guard {
	const struct client_watch *watch;
	struct cairn_listing *listing;
	struct cairn_ticker ticker;
};

static uint64_t guard_look(void *arg)
{
	const struct guard *guard = arg;

	if (guard->watch->cancelled(guard->watch->arg))
		cairn_listing_cancel(guard->listing);
	return LOOK_MS;
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
	cairn_cleanup(client_freep) struct cairn_client *client = NULL;
	cairn_cleanup(listing_freep) struct cairn_listing *listing = NULL;
	struct guard guard = {.watch = watch};
	struct cairn_client_error error;
	int rc;

	*ret_info = (struct cairn_listing_info){.size = sizeof(*ret_info)};
	if (cairn_client_new(options, &client, &error) < 0 ||
	    cairn_listing_new(client, query, &listing, &error) < 0)
		return listing_run_failed(&error, err);
	guard.listing = listing;
	rc = cairn_ticker_start(&guard.ticker, "guard", LOOK_MS, guard_look, &guard, err);
	if (rc)
		return rc;
	rc = listing_run_take_all(listing, watch, ret_info, err);
	cairn_ticker_stop(&guard.ticker);
	return rc;
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
