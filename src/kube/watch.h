/* SPDX-License-Identifier: Apache-2.0 */

/* One watch: what happens to objects after a resource version.
 *
 * A watch is read by one thread; kube_watch_stop() is for any. Most callers
 * want an informer (kube/informer.h), which lists, watches and recovers.
 */
#ifndef CAIRN_KUBE_WATCH_H
#define CAIRN_KUBE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/watch_decoder.h"

struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_ref;
struct kube_watch;

/* What may wait for a reader that does not come; beyond it the watch is broken
 * off with CAIRN_NO_SPACE, so that one slow reader does not hold up the
 * connection that others share. */
#define KUBE_WATCH_BUFFER_MAX (64U << 20)

struct kube_watch_options {
	const char *resource_version; /* NULL: everything there is as ADDED, then what happens */
	const char *label_selector;
	const char *field_selector;
	bool bookmarks;     /* the server tells now and then how far it is */
	bool open_only;     /* how->check is for the opening: the watch ends by kube_watch_stop() */
	uint64_t timeout_s; /* the server ends the watch after it; 0 is between 5 and 10 minutes */
};

/* ref->name watches one object. Returns when the server has accepted the watch.
 * `how` bounds that; its `check` is asked by kube_watch_next() too, its
 * deadline is not. */
int kube_watch_open(struct kube_client *client, const struct kube_ref *ref,
		    const struct kube_watch_options *options, const struct kube_call *how,
		    struct kube_watch **ret, struct cairn_err *err);

/* Waits for the next event, at most `wait_ms` (UINT64_MAX: for ever). Returns 1
 * and an event, bookmarks included; 0 when the server has ended the watch in
 * good order; or a code:
 *
 * CAIRN_RANGE        the resource version is too old: list again
 * CAIRN_CANCELLED    kube_watch_stop(), kube_client_shutdown(), `check`
 * CAIRN_DEADLINE     nothing came in `wait_ms`; the watch goes on
 * CAIRN_UNAVAILABLE  the connection broke: watch again from the last version
 * CAIRN_NO_SPACE     an event or what waits is over its limit, or out of memory
 * other codes        what the server said in its last event
 */
int kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_watch_event *ret,
		    struct cairn_err *err);

/* Ends the watch; a reader that waits returns at once. From any thread. */
void kube_watch_stop(struct kube_watch *watch);

/* Accepts NULL. */
void kube_watch_free(struct kube_watch *watch);
CAIRN_DEFINE_CLEANUP(struct kube_watch, kube_watch_free);

#endif
