/* SPDX-License-Identifier: Apache-2.0 */

/* The common part of all controllers: a work queue of keys, workers that process one key
 * at a time, leader election and shutdown.
 *
 * A controller implements only look(), which is called for a key until it succeeds, and
 * again after a delay if it asks for one. Dropping a key loses nothing: the objects hold
 * the whole state, and the next leader adds all keys.
 *
 * Thread-safe, except that one thread creates and frees it.
 */
#ifndef CAIRN_KUBE_CONTROLLER_H
#define CAIRN_KUBE_CONTROLLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_call;
struct kube_controller;
struct kube_informer;

#define KUBE_CONTROLLER_PAUSE_MIN_MS 200U
#define KUBE_CONTROLLER_PAUSE_MAX_MS 30000U

struct kube_controller_options {
	unsigned workers;
	uint64_t pause_min_ms, pause_max_ms; /* after failures, doubled; 0: the default */
	bool elected;                        /* work only while we lead */

	/* Processes the object of a key. *ret_again_ms is the delay before the next call:
	 * UINT64_MAX (the initial value) means never, 0 means the backoff that follows a failure.
	 * A failure is retried, unless the controller stops or loses the lease. */
	int (*look)(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err);

	/* Called when look() failed and will be retried. */
	void (*failed)(void *arg, const char *key, const struct cairn_err *err);
	void *arg;
};

/* Creates the queue, so that informers can add to it; no key is processed yet. */
int kube_controller_new(const struct kube_controller_options *options, struct kube_controller **ret,
			struct cairn_err *err);

/* Starts the workers. CAIRN_NO_SPACE if not even one thread can be started. */
int kube_controller_start(struct kube_controller *controller, struct cairn_err *err);

/* Ends the workers; the controller stays valid. Idempotent; accepts NULL. */
void kube_controller_stop(struct kube_controller *controller);

/* Stops and frees; no other thread may add to it any more. Accepts NULL. */
void kube_controller_free(struct kube_controller *controller);

void kube_controller_add(struct kube_controller *controller, const char *key);

/* Adds the key of one object, or those of all objects. */
void kube_controller_add_object(struct kube_controller *controller, const json_t *object);
void kube_controller_add_all(struct kube_controller *controller, struct kube_informer *informer);

/* Sets whether this process is the leader. Returns true if it just became the leader; the
 * caller then adds all keys. */
bool kube_controller_lead(struct kube_controller *controller, bool leads);

/* Options for look()'s calls to the API server: they are cancelled when the controller
 * stops or loses the lease. */
struct kube_call kube_controller_call(struct kube_controller *controller);

/* The number of keys that are ready, and whether all work is done. */
size_t kube_controller_waiting(struct kube_controller *controller);
bool kube_controller_idle(struct kube_controller *controller);

#endif
