/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of an informer; informer.c is the public interface, reflector.c the thread. */
#ifndef CAIRN_KUBE_INFORMER_IMPL_H
#define CAIRN_KUBE_INFORMER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object_store.h"

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

	/* used only by the thread */
	char *version;         /* to watch from; NULL: list first */
	uint64_t resync_at_ns; /* UINT64_MAX is never */

	pthread_mutex_t telling; /* guards handlers, held while they run; before `lock` */
	struct {
		kube_informer_handler handler;
		void *arg;
	} handlers[KUBE_INFORMER_HANDLERS_MAX];
	size_t n_handlers;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock */
	struct kube_store *store;
	struct kube_watch *watch; /* the open watch, so that stop can end it */
	uint64_t turned_ns;       /* when the current watch began, or the last one ended */
	bool behind;              /* an attempt failed, and no data has arrived since */
	bool hurry;               /* end the pause early */
	bool synced;
	struct kube_informer_stats stats;
};

/* The thread; `arg` is the informer. */
void *kube_informer_run(void *arg);

#endif
