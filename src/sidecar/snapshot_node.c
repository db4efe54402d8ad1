/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/snapshot_node.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_resource.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "sidecar/names_impl.h"

/* The value of a term that demands one value of one label. */
static const char *term_value(const json_t *term)
{
	const json_t *expressions = kube_at(term, "matchExpressions");
	const json_t *only = json_array_get(expressions, 0);
	const json_t *values = kube_at(only, "values");

	if (json_array_size(expressions) != 1 || json_array_size(values) != 1 ||
	    json_array_size(kube_at(term, "matchFields")) != 0 ||
	    !cairn_text_same(kube_str(only, "operator"), "In"))
		return NULL;
	return json_string_value(json_array_get(values, 0));
}

const char *sidecar_volume_node(const json_t *volume)
{
	const json_t *terms =
		kube_at(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms");

	return json_array_size(terms) == 1 ? term_value(json_array_get(terms, 0)) : NULL;
}

/* A missing object is not an error; *ret is NULL then. */
static int snapshot_node_get(const struct sidecar_kube *kube, const struct kube_ref *ref,
			     const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	int rc = kube->ops->get(kube->self, ref, wait, ret, err);

	if (rc == CAIRN_NOT_FOUND) {
		*ret = NULL;
		return 0;
	}
	if (rc == 0)
		return 0;
	cairn_err_wrap(err, "failed to get %s '%s'", ref->resource->kind, ref->name);
	return sidecar_read_failed(rc, err);
}

/* The volume of the claim that the snapshot was made from, if it is still the same one. */
static int snapshot_node_volume(const struct sidecar_kube *kube, const char *ns,
				const struct kube_snapshot *snapshot, const struct kube_wait *wait,
				json_t **ret, struct cairn_err *err)
{
	const char *claim_name =
		kube_str(snapshot->snapshot, "spec", "source", "persistentVolumeClaimName");
	kube_auto_json json_t *claim = NULL;
	kube_auto_json json_t *volume = NULL;
	const char *volume_name;
	int rc;

	*ret = NULL;
	if (!claim_name || !snapshot->volume_handle)
		return 0;
	rc = snapshot_node_get(kube, KUBE_REF(&kube_persistentvolumeclaims, ns, claim_name), wait,
			       &claim, err);
	volume_name = claim ? kube_str(claim, "spec", "volumeName") : NULL;
	if (rc || !volume_name)
		return rc;
	rc = snapshot_node_get(kube, KUBE_REF(&kube_persistentvolumes, NULL, volume_name), wait,
			       &volume, err);
	if (rc || !volume)
		return rc;
	if (cairn_text_same(kube_str(volume, "spec", "csi", "volumeHandle"),
			    snapshot->volume_handle) &&
	    cairn_text_same(kube_str(volume, "spec", "csi", "driver"), snapshot->driver))
		*ret = cairn_take(volume);
	return 0;
}

int sidecar_snapshot_node(const struct sidecar_kube *kube, const char *ns,
			  const struct kube_snapshot *snapshot, const struct kube_wait *wait,
			  char **ret, struct cairn_err *err)
{
	const char *node = kube_label(snapshot->content, KUBE_SNAPSHOT_NODE_LABEL);
	kube_auto_json json_t *volume = NULL;
	int rc = 0;

	if (!node || !*node)
		rc = snapshot_node_volume(kube, ns, snapshot, wait, &volume, err);
	if (rc)
		return rc;
	if (volume)
		node = sidecar_volume_node(volume);
	*ret = node && *node ? cairn_strdup(node) : NULL;
	return node && *node && !*ret ? cairn_err_nomem(err, "snapshot") : 0;
}
