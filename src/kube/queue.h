/* SPDX-License-Identifier: Apache-2.0 */

/* Keys that wait for a worker.
 *
 * What controllers work from: a key is in the queue once however often it is
 * added, is worked on by one worker at a time, and comes again when it was
 * added meanwhile. Work that failed is put back with a pause that doubles with
 * every failure of that key. Bounded by the number of keys there are.
 *
 * Any number of threads.
 */
#ifndef CAIRN_KUBE_QUEUE_H
#define CAIRN_KUBE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/object.h"

struct cairn_err;
struct kube_queue;

#define KUBE_QUEUE_PAUSE_MIN_MS 5
#define KUBE_QUEUE_PAUSE_MAX_MS 300000

/* Pauses of 0 are the two above. */
int kube_queue_new(uint64_t pause_min_ms, uint64_t pause_max_ms, struct kube_queue **ret,
		   struct cairn_err *err);

/* Nobody may use it any more. Accepts NULL. */
void kube_queue_free(struct kube_queue *queue);
CAIRN_DEFINE_CLEANUP(struct kube_queue, kube_queue_free);

/* Adds a key now, or not before `ms` went by; the earlier of two times counts.
 * CAIRN_NO_SPACE when memory is short, CAIRN_INVALID for a key over
 * KUBE_KEY_MAX. After the shutdown nothing is added. */
int kube_queue_add(struct kube_queue *queue, const char *key, struct cairn_err *err);
int kube_queue_add_after(struct kube_queue *queue, const char *key, uint64_t ms,
			 struct cairn_err *err);

/* Waits for a key: 1 and the key, which is then being worked on until
 * kube_queue_done(), or 0 after the shutdown. */
int kube_queue_take(struct kube_queue *queue, char ret_key[KUBE_KEY_MAX]);

/* The work on a key is over: for good, and its failures are forgotten; or it
 * failed and comes again after its pause (returned, in milliseconds). */
void kube_queue_done(struct kube_queue *queue, const char *key);
uint64_t kube_queue_retry(struct kube_queue *queue, const char *key);

/* Wakes everybody; kube_queue_take() returns 0 from now on. */
void kube_queue_shutdown(struct kube_queue *queue);

/* Keys that could be taken now. */
size_t kube_queue_length(struct kube_queue *queue);

#endif
