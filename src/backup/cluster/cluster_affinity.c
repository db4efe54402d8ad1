/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_affinity.h"

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"

static json_t *terms_of(const json_t *volume)
{
	return kube_at(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms");
}

bool backup_cluster_has_affinity(const json_t *volume)
{
	return json_array_size(terms_of(volume)) > 0;
}

/* The API's default is Immediate; a class that cannot be read has an unknown mode. */
static bool binds_at_once(const json_t *storage_class)
{
	const char *mode = kube_str(storage_class, "volumeBindingMode");

	return storage_class && (!mode || cairn_text_same(mode, "Immediate"));
}

/* True unless the content says that it was cut from another volume. */
static bool is_cut_from(const json_t *content, const json_t *volume)
{
	const char *handle = kube_str(content, "spec", "source", "volumeHandle");

	if (!volume)
		return false;
	return !handle ||
	       (cairn_text_same(handle, kube_str(volume, "spec", "csi", "volumeHandle")) &&
		cairn_text_same(kube_str(content, "spec", "driver"),
				kube_str(volume, "spec", "csi", "driver")));
}

/* The name of a Node need not be the value of any of its labels. */
static json_t *terms_of_node(const char *node)
{
	return json_pack("[{s:[{s:s,s:s,s:[s]}]}]", "matchFields", "key", "metadata.name",
			 "operator", "In", "values", node);
}

int backup_cluster_node_affinity(const struct cluster_origin *origin, json_t **ret,
				 struct cairn_err *err)
{
	bool is_source = is_cut_from(origin->content, origin->volume);
	const char *node = kube_label(origin->content, KUBE_SNAPSHOT_NODE_LABEL);
	json_t *terms;
	json_t *made;

	*ret = NULL;
	if (binds_at_once(origin->storage_class))
		return 0;
	if (is_source ? !backup_cluster_has_affinity(origin->volume) : !node || !*node)
		return 0;
	terms = is_source ? json_incref(terms_of(origin->volume)) : terms_of_node(node);
	made = json_pack("{s:{s:o}}", "requiredDuringSchedulingIgnoredDuringExecution",
			 "nodeSelectorTerms", terms);
	if (!made)
		return cairn_err_nomem(err, "node affinity");
	*ret = made;
	return 0;
}
