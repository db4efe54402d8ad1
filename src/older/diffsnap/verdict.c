/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/verdict.h"

#include <string.h>

#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "older/diffsnap/diffsnap_driver.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "proto/message.h"

const char *diffsnap_state_name(enum diffsnap_state state)
{
	switch (state) {
	case DIFFSNAP_SUCCESS:
		return "Success";
	case DIFFSNAP_FAILURE:
		return "Failure";
	case DIFFSNAP_FOREIGN:
	case DIFFSNAP_PENDING:
		break;
	}
	return "Pending";
}

/* Maps a code of kube_snapshot_get() to a verdict where it is one. A snapshot that is not
 * ready and an API server that cannot be reached have the same code: both are retried. */
static int from_code(int rc, const struct cairn_err *why, struct diffsnap_verdict *ret)
{
	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || rc == CAIRN_INVALID)
		ret->state = DIFFSNAP_FAILURE;
	else if (rc == CAIRN_UNAVAILABLE)
		ret->state = DIFFSNAP_PENDING;
	else
		return rc;
	ret->why = *why;
	return 0;
}

/* Codes of the driver for which a retry does not help. */
static bool verdict_is_final(int rc)
{
	return rc == CAIRN_INVALID || rc == CAIRN_NOT_FOUND || rc == CAIRN_RANGE ||
	       rc == CAIRN_PRECONDITION || rc == CAIRN_UNIMPLEMENTED;
}

struct judging {
	struct kube_client *client;
	struct diffsnap_driver *driver;
	const struct diffsnap_wish *wish;
	const struct kube_call *how;
	const char *our_name;
	struct kube_snapshot base;
	struct kube_snapshot target;
};

static void judging_done(struct judging *j)
{
	kube_snapshot_done(&j->base);
	kube_snapshot_done(&j->target);
}

static bool verdict_is_ours(const struct judging *j, const struct kube_snapshot *snapshot)
{
	return strcmp(snapshot->driver, j->our_name) == 0;
}

/* Resolves both VolumeSnapshots; the verdict stays at success if both are good. */
static int find_snapshots(struct judging *j, struct diffsnap_verdict *ret, struct cairn_err *err)
{
	const struct diffsnap_wish *wish = j->wish;
	int rc = kube_snapshot_get(j->client, wish->ns, wish->target, j->how, &j->target, err);

	if (rc)
		return from_code(rc, err, ret);
	if (!verdict_is_ours(j, &j->target)) {
		ret->state = DIFFSNAP_FOREIGN;
		cairn_err_set(&ret->why, CAIRN_INVALID,
			      "VolumeSnapshot '%s' belongs to the driver '%s', not to '%s'",
			      wish->target, j->target.driver, j->our_name);
		return 0;
	}
	if (!wish->base[0])
		return 0;
	rc = kube_snapshot_get(j->client, wish->ns, wish->base, j->how, &j->base, err);
	if (rc == CAIRN_NOT_FOUND && wish->base_handle && wish->base_handle[0])
		return 0;
	if (rc)
		return from_code(rc, err, ret);
	if (!verdict_is_ours(j, &j->base)) {
		ret->state = DIFFSNAP_FAILURE;
		cairn_err_set(&ret->why, CAIRN_INVALID,
			      "VolumeSnapshot '%s' belongs to another driver than '%s'", wish->base,
			      wish->target);
	}
	return 0;
}

static int check_service(struct judging *j, struct diffsnap_verdict *ret, struct cairn_err *err)
{
	bool offered = false;
	int rc = diffsnap_driver_supports(j->driver, &offered, err);

	if (!rc && !offered) {
		ret->state = DIFFSNAP_FAILURE;
		cairn_err_set(&ret->why, CAIRN_UNIMPLEMENTED,
			      "the driver '%s' does not offer DIFFERENTIAL_SNAPSHOT_SERVICE",
			      j->our_name);
	}
	return rc;
}

static int make_resource(struct judging *j, struct diffsnap_verdict *ret, struct cairn_err *err)
{
	const struct diffsnap_wish *wish = j->wish;
	struct diffsnap_resource_spec spec = {
		.base = j->base.handle ? j->base.handle : wish->base_handle,
		.target = j->target.handle,
		.base_name = wish->base,
		.target_name = wish->target,
		.volume_id = wish->volume_id,
		.mode = wish->mode,
		.start_offset = wish->start_offset,
		.parameters = wish->parameters,
	};

	return diffsnap_resource_new(&spec, &ret->resource, err);
}

/* Requests a first entry, so that the driver reports any problem with the pair. */
static int try_page(struct judging *j, struct diffsnap_verdict *ret, struct cairn_err *err)
{
	const struct diffsnap_resource_spec *spec = diffsnap_resource_spec(ret->resource);
	Csi__V1__DifferentialSnapshotResponse *page = NULL;
	int rc = diffsnap_driver_page(j->driver, spec, spec->start_offset, 1, "", &page, err);

	if (!rc) {
		proto_message_free(&page->base);
		return 0;
	}
	diffsnap_resource_unref(cairn_take(ret->resource));
	if (!verdict_is_final(rc))
		return cairn_err_wrap(err, "driver");
	ret->state = DIFFSNAP_FAILURE;
	ret->why = *err;
	return 0;
}

int diffsnap_judge_wish(struct kube_client *client, struct diffsnap_driver *driver,
			const struct diffsnap_wish *wish, const struct kube_call *how,
			struct diffsnap_verdict *ret, struct cairn_err *err)
{
	cairn_cleanup(judging_done) struct judging j = {
		.client = client,
		.driver = driver,
		.wish = wish,
		.how = how,
	};
	int rc = diffsnap_driver_name(driver, &j.our_name, err);

	*ret = (struct diffsnap_verdict){.state = DIFFSNAP_SUCCESS};
	if (!rc)
		rc = find_snapshots(&j, ret, err);
	if (!rc && ret->state == DIFFSNAP_SUCCESS)
		rc = check_service(&j, ret, err);
	if (!rc && ret->state == DIFFSNAP_SUCCESS)
		rc = make_resource(&j, ret, err);
	return rc;
}

int diffsnap_judge(struct kube_client *client, struct diffsnap_driver *driver, const json_t *object,
		   const struct kube_call *how, struct diffsnap_verdict *ret, struct cairn_err *err)
{
	const char *base = kube_str(object, "spec", "baseVolumeSnapshotName");
	const char *target = kube_str(object, "spec", "targetVolumeSnapshotName");
	struct diffsnap_wish wish = {
		.ns = kube_namespace(object),
		.base = base ? base : "",
		.target = target ? target : "",
		.base_handle = kube_str(object, "status", "baseSnapshotHandle"),
		.volume_id = kube_str(object, "spec", "volumeId"),
		.mode = kube_str(object, "spec", "mode"),
		.start_offset = kube_str(object, "spec", "startOffset"),
		.parameters = kube_at(object, "spec", "parameters"),
	};
	struct judging j = {.driver = driver};
	int rc;

	if (!wish.target[0]) {
		*ret = (struct diffsnap_verdict){.state = DIFFSNAP_FAILURE};
		cairn_err_set(&ret->why, CAIRN_INVALID, "targetVolumeSnapshotName is missing");
		return 0;
	}
	rc = diffsnap_judge_wish(client, driver, &wish, how, ret, err);
	return rc || ret->state != DIFFSNAP_SUCCESS ? rc : try_page(&j, ret, err);
}
