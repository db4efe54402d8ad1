/* SPDX-License-Identifier: Apache-2.0 */

/* Removes what killed plugins and servers left: once every period, one look at everything that
 * carries VELERO_LABEL_ROLE. An error leaves things as they are until the next look. */

#include "velero/controllers/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/kube_client.h"
#include "velero/controllers/controllers.h"

#define PAUSE_MIN_MS 1000U
#define PAUSE_MAX_MS 60000U
#define KEY          "all"

struct sweep {
	struct velero_common common;
	struct kube_controller *base;
};

/* A group goes after its snapshots were seen to: their contents would stay without them. */
static int sweep_cut(const struct velero_common *common, const struct kube_call *how,
		     struct cairn_err *err)
{
	int rc = velero_sweep_snapshots(common, how, err);

	return rc ? rc : velero_sweep_groups(common, how, err);
}

static int sweep_look(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err)
{
	struct sweep *s = arg;
	const struct kube_call how = kube_controller_call(s->base);
	int (*const steps[])(const struct velero_common *, const struct kube_call *,
			     struct cairn_err *) = {
		sweep_cut,
		velero_sweep_restores,
		velero_sweep_progress,
	};
	int failed = 0;

	(void)key;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct cairn_err why = {0};
		int rc = steps[i](&s->common, &how, &why);

		if (rc == CAIRN_CANCELLED)
			return cairn_err_set(err, rc, "%s", why.msg);
		if (rc && !failed)
			failed = cairn_err_set(err, rc, "%s", why.msg);
	}
	*ret_again_ms = s->common.period_ms;
	return failed;
}

static void sweep_failed(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	(void)key;
	cairn_log(CAIRN_LOG_WARN, "leftovers wait", CAIRN_STR("error", err->msg));
}

static void sweep_free(void *arg)
{
	struct sweep *s = arg;

	kube_controller_free(s->base);
	free(s);
}

static int sweep_start(const struct velero_common *common, void **ret, struct cairn_err *err)
{
	struct sweep *s = cairn_calloc(1, sizeof(*s));
	const struct kube_controller_options options = {
		.workers = 1,
		.pause_min_ms = PAUSE_MIN_MS,
		.pause_max_ms = PAUSE_MAX_MS,
		.elected = true,
		.look = sweep_look,
		.failed = sweep_failed,
		.arg = s,
	};
	int rc;

	if (!s)
		return cairn_err_nomem(err, "controller");
	s->common = *common;
	rc = kube_controller_new(&options, &s->base, err);
	if (!rc)
		rc = kube_controller_start(s->base, err);
	if (rc)
		sweep_free(s);
	else
		*ret = s;
	return rc;
}

static void sweep_stop(void *arg)
{
	kube_controller_stop(((struct sweep *)arg)->base);
}

static void sweep_lead(void *arg, bool leads)
{
	struct sweep *s = arg;

	if (kube_controller_lead(s->base, leads))
		kube_controller_add(s->base, KEY);
}

const struct velero_controller velero_sweep_controller = {
	.name = "sweep",
	.start = sweep_start,
	.lead = sweep_lead,
	.stop = sweep_stop,
	.free = sweep_free,
};
