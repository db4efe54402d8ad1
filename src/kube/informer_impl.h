/* SPDX-License-Identifier: Apache-2.0 */

/* An informer's parts; informer.c is for its users, reflector.c its thread. */
#ifndef CAIRN_KUBE_INFORMER_IMPL_H
#define CAIRN_KUBE_INFORMER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kube/client.h"
#include "kube/informer.h"
#include "kube/store.h"

struct kube_watch;

struct kube_informer {
	struct kube_client *client;
	const struct kube_resource *resource;
	char *ns;
	char *label_selector;
	char *field_selector;
	void (*trim)(json_t *object);
	uint64_t resync_ms;

	pthread_t thread;
	bool running;
	atomic_bool stop;

	/* the thread's own */
	char *version;         /* to watch from; NULL: list first */
	uint64_t resync_at_ns; /* UINT64_MAX is never */

	pthread_mutex_t telling; /* handlers, and changes with what they are told; before `lock` */
	struct {
		kube_informer_handler handler;
		void *arg;
	} handlers[KUBE_INFORMER_HANDLERS_MAX];
	size_t n_handlers;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock */
	struct kube_store *store;
	struct kube_watch *watch; /* while there is one, for who stops it */
	uint64_t turned_ns;       /* when it began, or there was none any more */
	bool behind;              /* something failed, and nothing came since */
	bool hurry;               /* a pause ends early */
	bool synced;
	struct kube_informer_stats stats;
};

/* The thread; `arg` is the informer. */
void *kube_informer_run(void *arg);

#endif
