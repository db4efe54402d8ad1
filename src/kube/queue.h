/* SPDX-License-Identifier: Apache-2.0 */

/* Work queue of keys for controllers.
 *
 * A key is queued once however often it is added, is processed by one worker at a time,
 * and is queued again if it was added during processing. Failed work is retried after a
 * pause that doubles with every failure of that key. The size is bounded by the number of
 * distinct keys.
 *
 * Keys of one namespace (the part before '/'), and those without one, are taken in the order
 * in which they became ready. Namespaces are served in turn, so that thousands of objects of
 * one tenant delay the object of another by one. A key that failed once or twice has waited
 * before, and is taken before the others of its namespace.
 *
 * Thread-safe.
 */
#ifndef CAIRN_KUBE_QUEUE_H
#define CAIRN_KUBE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/object.h"

struct cairn_err;
struct kube_queue;

#define KUBE_QUEUE_PAUSE_MIN_MS 5
#define KUBE_QUEUE_PAUSE_MAX_MS 300000

/* A pause of 0 selects the default above. */
int kube_queue_new(uint64_t pause_min_ms, uint64_t pause_max_ms, struct kube_queue **ret,
		   struct cairn_err *err);

/* No other thread may use it any more. Accepts NULL. */
void kube_queue_free(struct kube_queue *queue);
CAIRN_DEFINE_CLEANUP(struct kube_queue, kube_queue_free);

/* Adds a key now, or after `ms`; the earlier of two times counts. CAIRN_NO_SPACE when
 * memory is short, CAIRN_INVALID for a key over KUBE_KEY_MAX. After kube_queue_shutdown()
 * nothing is added. */
int kube_queue_add(struct kube_queue *queue, const char *key, struct cairn_err *err);
int kube_queue_add_after(struct kube_queue *queue, const char *key, uint64_t ms,
			 struct cairn_err *err);

/* Waits for a key. Returns 1 and the key, which the caller then processes until it calls
 * kube_queue_done(), or 0 after the shutdown. */
int kube_queue_take(struct kube_queue *queue, char ret_key[KUBE_KEY_MAX]);

/* Ends the work on a key: with success, which resets its failure count; or with a failure,
 * which retries it after the returned pause in milliseconds. */
void kube_queue_done(struct kube_queue *queue, const char *key);
uint64_t kube_queue_retry(struct kube_queue *queue, const char *key);

/* Wakes all waiting threads; kube_queue_take() returns 0 from now on. */
void kube_queue_shutdown(struct kube_queue *queue);

/* The number of keys that are ready. */
size_t kube_queue_length(struct kube_queue *queue);

/* No key is ready or being worked on. */
bool kube_queue_idle(struct kube_queue *queue);

#endif
