/* SPDX-License-Identifier: Apache-2.0 */

/* The module of `cairn list` and of `cairn verify` over devices. */

#include "cmd/role.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cairn/client.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "client/mirror.h"
#include "pool/store.h"

#define LOOK_MS 100

static void listing_freep(struct cairn_listing **listing)
{
	cairn_listing_free(*listing);
}

static void client_freep(struct cairn_client **client)
{
	cairn_client_free(*client);
}

static int failed(const struct cairn_client_error *error, struct cairn_err *err)
{
	return cairn_err_set(err, error->code, "%s", error->message);
}

/* --- a listing that an interrupt ends, though its thread waits in it --- */

struct guard {
	const struct role_client_watch *watch;
	struct cairn_listing *listing;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done; /* guarded by the lock */
};

static void *guard_main(void *arg)
{
	struct guard *guard = arg;

	cairn_scoped_lock(&guard->lock);
	while (!guard->done) {
		uint64_t until = cairn_monotonic_ns() + LOOK_MS * CAIRN_NS_PER_MS;
		struct timespec at = {
			.tv_sec = (time_t)(until / CAIRN_NS_PER_SEC),
			.tv_nsec = (long)(until % CAIRN_NS_PER_SEC),
		};

		pthread_cond_timedwait(&guard->changed, &guard->lock, &at);
		if (guard->watch->cancelled(guard->watch->arg))
			cairn_listing_cancel(guard->listing);
	}
	return NULL;
}

static int guard_start(struct guard *guard, struct cairn_err *err)
{
	pthread_condattr_t monotonic;
	sigset_t all, before;
	int rc;

	pthread_mutex_init(&guard->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&guard->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&guard->thread, NULL, guard_main, guard);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? cairn_err_sys(err, rc, "thread") : 0;
}

static void guard_stop(struct guard *guard)
{
	pthread_mutex_lock(&guard->lock);
	guard->done = true;
	pthread_cond_signal(&guard->changed);
	pthread_mutex_unlock(&guard->lock);
	pthread_join(guard->thread, NULL);
	pthread_cond_destroy(&guard->changed);
	pthread_mutex_destroy(&guard->lock);
}

static int take_all(struct cairn_listing *listing, const struct role_client_watch *watch,
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
	return rc < 0 ? failed(&error, err) : 0;
}

__attribute__((visibility("default"))) int
cairn_role_list(const struct cairn_client_options *options, const struct cairn_listing_query *query,
		const struct role_client_watch *watch, struct cairn_listing_info *ret_info,
		struct cairn_err *err)
{
	cairn_cleanup(client_freep) struct cairn_client *client = NULL;
	cairn_cleanup(listing_freep) struct cairn_listing *listing = NULL;
	struct guard guard = {.watch = watch};
	struct cairn_client_error error;
	int rc;

	*ret_info = (struct cairn_listing_info){.size = sizeof(*ret_info)};
	if (cairn_client_new(options, &client, &error) < 0 ||
	    cairn_listing_new(client, query, &listing, &error) < 0)
		return failed(&error, err);
	guard.listing = listing;
	rc = guard_start(&guard, err);
	if (rc)
		return rc;
	rc = take_all(listing, watch, ret_info, err);
	guard_stop(&guard);
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

static void copying_done(struct copying *copying)
{
	client_mirror_done(&copying->mirror);
}

__attribute__((visibility("default"))) int cairn_role_mirror(const struct role_mirror_options *o,
							     struct role_mirror_result *ret,
							     struct cairn_err *err)
{
	cairn_cleanup(copying_done) struct copying copying = {.mirror = CLIENT_MIRROR_INIT,
							      .progress = o->copying};
	struct role_client_watch watch = {
		.message = copy_message, .cancelled = copy_cancelled, .arg = &copying};
	struct client_mirror_result compared;
	struct cairn_listing_info info;
	int rc = client_mirror_open(&copying.mirror, o->source, o->target, err);

	if (!rc)
		rc = cairn_role_list(o->options, o->query, &watch, &info, err);
	if (!rc)
		rc = client_mirror_compare(&copying.mirror, o->comparing, &compared, err);
	if (rc)
		return rc;
	*ret = (struct role_mirror_result){
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
