/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/controller.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread_group.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/queue.h"

struct kube_controller {
	struct kube_controller_options options;
	struct kube_queue *queue;
	struct cairn_thread_group workers;
	atomic_bool stopping;
	atomic_bool leads;
};

static int check_stop(void *arg)
{
	const struct kube_controller *c = arg;

	return atomic_load(&c->stopping) || !atomic_load(&c->leads) ? CAIRN_CANCELLED : 0;
}

static void controller_work_on(struct kube_controller *c, const char *key)
{
	const struct kube_controller_options *o = &c->options;
	struct cairn_err err = {0};
	uint64_t again = UINT64_MAX;
	/* A former leader may drop its keys: the next leader adds all keys. */
	int rc = atomic_load(&c->leads) ? o->look(o->arg, key, &again, &err) : 0;

	/* A driver may return CANCELLED too, which is a failure like any other. */
	if (rc == CAIRN_CANCELLED && check_stop(c)) {
		kube_queue_done(c->queue, key);
		return;
	}
	if (rc)
		o->failed(o->arg, key, &err);
	if (rc || again == 0) {
		kube_queue_retry(c->queue, key);
		return;
	}
	kube_queue_done(c->queue, key);
	if (again != UINT64_MAX)
		(void)kube_queue_add_after(c->queue, key, again, NULL);
}

static void *controller_work(void *arg)
{
	struct kube_controller *c = arg;
	char key[KUBE_KEY_MAX];

	while (kube_queue_take(c->queue, key))
		controller_work_on(c, key);
	return NULL;
}

int kube_controller_new(const struct kube_controller_options *options, struct kube_controller **ret,
			struct cairn_err *err)
{
	cairn_auto_free struct kube_controller *c = cairn_calloc(1, sizeof(*c));
	const uint64_t min = options->pause_min_ms, max = options->pause_max_ms;
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controller");
	c->options = *options;
	atomic_store(&c->leads, !options->elected);
	rc = kube_queue_new(min ? min : KUBE_CONTROLLER_PAUSE_MIN_MS,
			    max ? max : KUBE_CONTROLLER_PAUSE_MAX_MS, &c->queue, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

int kube_controller_start(struct kube_controller *c, struct cairn_err *err)
{
	if (cairn_thread_group_start(&c->workers, c->options.workers, controller_work, c) == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "no thread can be started");
	return 0;
}

void kube_controller_stop(struct kube_controller *c)
{
	if (!c)
		return;
	atomic_store(&c->stopping, true);
	kube_queue_shutdown(c->queue);
	cairn_thread_group_join(&c->workers);
}

void kube_controller_free(struct kube_controller *c)
{
	if (!c)
		return;
	kube_controller_stop(c);
	kube_queue_free(c->queue);
	free(c);
}

void kube_controller_add(struct kube_controller *c, const char *key)
{
	(void)kube_queue_add(c->queue, key, NULL);
}

void kube_controller_add_object(struct kube_controller *c, const json_t *object)
{
	char key[KUBE_KEY_MAX];

	if (kube_key(object, key))
		kube_controller_add(c, key);
}

void kube_controller_add_all(struct kube_controller *c, struct kube_informer *informer)
{
	json_t **found = NULL;
	size_t n = 0;

	if (kube_informer_list(informer, &found, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		kube_controller_add_object(c, found[i]);
	kube_objects_free(found, n);
}

bool kube_controller_lead(struct kube_controller *c, bool leads)
{
	return !atomic_exchange(&c->leads, leads) && leads;
}

struct kube_call kube_controller_call(struct kube_controller *c)
{
	return (struct kube_call){.check = check_stop, .check_arg = c};
}

size_t kube_controller_waiting(struct kube_controller *c)
{
	return kube_queue_length(c->queue);
}

bool kube_controller_idle(struct kube_controller *c)
{
	return kube_queue_idle(c->queue);
}
