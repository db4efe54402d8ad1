/* SPDX-License-Identifier: Apache-2.0 */

/* One watch: the changes to objects after a resource version.
 *
 * A watch is read by one thread; kube_watch_stop() may be called from any. Most callers
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

/* Limit of unread data. Beyond it the watch fails with CAIRN_NO_SPACE, so that one slow
 * reader does not block the connection that others share. */
#define KUBE_WATCH_BUFFER_MAX (64U << 20)

struct kube_watch_options {
	const char *resource_version; /* NULL: all existing objects as ADDED, then the changes */
	const char *label_selector;
	const char *field_selector;
	bool bookmarks;     /* the server reports its progress periodically */
	bool open_only;     /* how->check applies only to opening the watch */
	uint64_t timeout_s; /* the server ends the watch after it; 0 is between 5 and 10 minutes */
};

/* ref->name watches one object. Returns when the server has accepted the watch. The
 * deadline of `how` bounds only that; its `check` is also called by kube_watch_next(). */
int kube_watch_open(struct kube_client *client, const struct kube_ref *ref,
		    const struct kube_watch_options *options, const struct kube_call *how,
		    struct kube_watch **ret, struct cairn_err *err);

/* Waits for the next event, at most `wait_ms` (UINT64_MAX: without limit). Returns 1 and
 * an event, bookmarks included; 0 if the server has ended the watch normally; or an error
 * code:
 *
 * CAIRN_RANGE        the resource version is too old: list again
 * CAIRN_CANCELLED    kube_watch_stop(), kube_client_shutdown(), `check`
 * CAIRN_DEADLINE     no event within `wait_ms`; the watch stays open
 * CAIRN_UNAVAILABLE  the connection broke: watch again from the last version
 * CAIRN_NO_SPACE     an event or the unread data exceeds its limit, or out of memory
 * other codes        the error in the server's last event
 */
int kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_watch_event *ret,
		    struct cairn_err *err);

/* Ends the watch; a waiting reader returns immediately. From any thread. */
void kube_watch_stop(struct kube_watch *watch);

/* Accepts NULL. */
void kube_watch_free(struct kube_watch *watch);
CAIRN_DEFINE_CLEANUP(struct kube_watch, kube_watch_free);

#endif
