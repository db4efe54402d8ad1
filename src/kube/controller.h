/* SPDX-License-Identifier: Apache-2.0 */

/* What all controllers have in common: a queue of keys, workers that look at the
 * object of one key at a time, an election they obey, and an end.
 *
 * A controller keeps only its decision: look() is called for a key until it
 * succeeds, and again when it asks for that. Nothing is lost by forgetting a
 * key: what is to be done is in the objects, and whoever leads next adds all.
 *
 * Any number of threads; made and freed by one.
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

struct kube_controller_options {
	unsigned workers;
	uint64_t pause_min_ms, pause_max_ms; /* after failures, doubled; as in kube/queue.h */
	bool elected;                        /* works only while kube_controller_lead() said so */

	/* Looks at the object of a key. *ret_again_ms is when to look again: never as it
	 * is given (UINT64_MAX), or 0 for a pause that grows as after a failure.
	 * A failure repeats it, unless the controller stops or leads no more. */
	int (*look)(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err);

	/* A look failed, and comes again. */
	void (*failed)(void *arg, const char *key, const struct cairn_err *err);
	void *arg;
};

/* Makes the queue, so that informers may add to it; nothing is looked at yet. */
int kube_controller_new(const struct kube_controller_options *options, struct kube_controller **ret,
			struct cairn_err *err);

/* Starts the workers. CAIRN_NO_SPACE when not one thread can be had. */
int kube_controller_start(struct kube_controller *controller, struct cairn_err *err);

/* Ends the workers; the object stays valid. Idempotent; accepts NULL. */
void kube_controller_stop(struct kube_controller *controller);

/* Stops and frees; nobody may add to it any more. Accepts NULL. */
void kube_controller_free(struct kube_controller *controller);

void kube_controller_add(struct kube_controller *controller, const char *key);

/* By the object's key, or that of all objects. */
void kube_controller_add_object(struct kube_controller *controller, const json_t *object);
void kube_controller_add_all(struct kube_controller *controller, struct kube_informer *informer);

/* Whether we lead. True when that began just now: then the caller adds all. */
bool kube_controller_lead(struct kube_controller *controller, bool leads);

/* How look() calls the API server: given up when the controller stops or leads no
 * more. */
struct kube_call kube_controller_call(struct kube_controller *controller);

/* Keys that could be worked on now, and whether all work is done. */
size_t kube_controller_waiting(struct kube_controller *controller);
bool kube_controller_idle(struct kube_controller *controller);

#endif
