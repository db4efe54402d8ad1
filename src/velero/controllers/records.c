/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/controllers/controllers.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "kube/object.h"

#define WORKERS      2U
#define PAUSE_MIN_MS 500U
#define PAUSE_MAX_MS 60000U

struct records {
	struct velero_common common;
	struct kube_controller *base;
};

static int records_look(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err)
{
	(void)arg;
	(void)key;
	(void)ret_again_ms;
	(void)err;
	return 0;
}

static void records_failed(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "records of a backup wait", CAIRN_STR("backup", key),
		  CAIRN_STR("error", err->msg));
}

static void records_on_backup(void *arg, const json_t *old, const json_t *now)
{
	struct records *r = arg;

	(void)old;
	if (now)
		kube_controller_add_object(r->base, now);
}

static void records_free(void *arg)
{
	struct records *r = arg;

	kube_controller_free(r->base);
	free(r);
}

static int records_start(const struct velero_common *common, void **ret, struct cairn_err *err)
{
	struct records *r = cairn_calloc(1, sizeof(*r));
	const struct kube_controller_options options = {
		.workers = WORKERS,
		.pause_min_ms = PAUSE_MIN_MS,
		.pause_max_ms = PAUSE_MAX_MS,
		.elected = true,
		.look = records_look,
		.failed = records_failed,
		.arg = r,
	};
	int rc;

	if (!r)
		return cairn_err_nomem(err, "controller");
	r->common = *common;
	rc = kube_controller_new(&options, &r->base, err);
	if (!rc)
		rc = kube_informer_add_handler(common->backups, records_on_backup, r, err);
	if (!rc)
		rc = kube_controller_start(r->base, err);
	if (rc)
		records_free(r);
	else
		*ret = r;
	return rc;
}

static void records_stop(void *arg)
{
	kube_controller_stop(((struct records *)arg)->base);
}

static void records_lead(void *arg, bool leads)
{
	struct records *r = arg;

	if (kube_controller_lead(r->base, leads))
		kube_controller_add_all(r->base, r->common.backups);
}

const struct velero_controller velero_records_controller = {
	.name = "records",
	.start = records_start,
	.lead = records_lead,
	.stop = records_stop,
	.free = records_free,
};
