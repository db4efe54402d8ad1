/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a handle may be the base of a delta. */

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/object.h"
#include "kube/user.h"
#include "sidecar/access.h"
#include "sidecar/names_impl.h"

/* Of several contents with one handle, returns that in the target's namespace. */
static const json_t *in_namespace(const json_t *contents, const char *ns)
{
	size_t i;
	json_t *content;

	json_array_foreach(contents, i, content)
	{
		if (cairn_text_same(kube_str(content, "spec", "volumeSnapshotRef", "namespace"),
				    ns))
			return content;
	}
	return NULL;
}

static int check_known(const struct sidecar_base *base, const json_t *contents,
		       const struct kube_wait *wait, struct cairn_err *err)
{
	const json_t *content = in_namespace(contents, base->target->ns);
	const char *volume = kube_str(content, "spec", "source", "volumeHandle");
	const char *name = kube_str(content, "spec", "volumeSnapshotRef", "name");

	/* Reveal nothing about a snapshot in another namespace. */
	if (!content)
		return cairn_err_set(err, CAIRN_DENIED,
				     "the base snapshot does not belong to namespace '%s'",
				     base->target->ns);
	if (name) {
		int rc = sidecar_access_check(base->access, base->user, base->target->ns, name,
					      wait, err);

		if (rc)
			return cairn_err_wrap(err, "base snapshot");
	}
	if (volume && base->target->volume && strcmp(volume, base->target->volume) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the base snapshot and '%s' are not of the same volume",
				     base->target->name);
	return 0;
}

/* The sidecar lacks permission to list contents, which upstream does not need. */
static int check_blind(struct sidecar_resolve *names, const struct sidecar_base *base,
		       struct cairn_err *err)
{
	if (base->owned)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the sidecar may not list VolumeSnapshotContents, so it "
				     "cannot check to whom the base snapshot belongs");
	if (!atomic_flag_test_and_set(&names->told_blind))
		cairn_log(CAIRN_LOG_WARN, "base snapshots cannot be checked",
			  CAIRN_STR("why", "not allowed to list volumesnapshotcontents"));
	return 0;
}

int sidecar_resolve_check_base(struct sidecar_resolve *names, const struct sidecar_base *base,
			       const struct kube_wait *wait, struct cairn_err *err)
{
	const struct sidecar_kube *kube = &names->kube;
	kube_auto_json json_t *contents = NULL;
	int rc;

	if (strcmp(base->id, base->target->handle) == 0)
		return 0;
	rc = kube->ops->contents_of(kube->self, base->driver, base->id, base->owned, wait,
				    &contents, err);
	if (rc == CAIRN_DENIED)
		return check_blind(names, base, err);
	if (rc) {
		cairn_err_wrap(err, "failed to look for the base snapshot");
		return sidecar_read_failed(rc, err);
	}
	if (json_array_size(contents) > 0)
		return check_known(base, contents, wait, err);
	if (base->owned)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "the base snapshot is not known to Kubernetes");
	return 0;
}
