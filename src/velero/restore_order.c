/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/restore_order.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"

const char velero_restore_order_default[] =
	"customresourcedefinitions,namespaces,storageclasses,"
	"volumesnapshotclass.snapshot.storage.k8s.io,"
	"volumesnapshotcontents.snapshot.storage.k8s.io,volumesnapshots.snapshot.storage.k8s.io,"
	"datauploads.velero.io,persistentvolumes,persistentvolumeclaims,clusterroles,roles,"
	"serviceaccounts,clusterrolebindings,rolebindings,secrets,configmaps,limitranges,"
	"priorityclasses,pods,replicasets.apps,clusterclasses.cluster.x-k8s.io,endpoints,services,-,"
	"clusterbootstraps.run.tanzu.vmware.com,clusters.cluster.x-k8s.io,"
	"clusterresourcesets.addons.cluster.x-k8s.io,apps.kappctrl.k14s.io,"
	"packageinstalls.packaging.carvel.dev";

/* Of the design. What is restored for the claims' sake is `source`, the claims and their volumes
 * `user`. */
static const struct {
	const char *name;
	const char *also; /* another spelling; or NULL */
	bool source, user;
} wanted[] = {
	{"namespaces", NULL, false, false},
	{"storageclasses", "storageclasses.storage.k8s.io", false, false},
	{"customresourcedefinitions", "customresourcedefinitions.apiextensions.k8s.io", true,
	 false},
	{"volumesnapshotclass.snapshot.storage.k8s.io",
	 "volumesnapshotclasses.snapshot.storage.k8s.io", true, false},
	{"volumesnapshotcontents.snapshot.storage.k8s.io", NULL, true, false},
	{"volumesnapshots.snapshot.storage.k8s.io", NULL, true, false},
	{"persistentvolumes", "pv", false, true},
	{"persistentvolumeclaims", "pvc", false, true},
	{"secrets", NULL, false, false},
	{"configmaps", NULL, false, false},
	{"serviceaccounts", NULL, false, false},
	{"limitranges", NULL, false, false},
	{"pods", NULL, false, false},
	{"replicaset", "replicasets.apps", false, false},
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

/* Position of a word in the list; SIZE_MAX: it is not there, and comes after all that are. What
 * follows "-" comes last. */
static size_t position(const char *list, const char *word)
{
	size_t at = 0;

	for (const char *p = list;; p++, at++) {
		size_t n = strcspn(p, ",");

		if (n == strlen(word) && strncmp(p, word, n) == 0)
			return at;
		if (n == 1 && *p == '-')
			return SIZE_MAX;
		p += n;
		if (!*p)
			return SIZE_MAX;
	}
}

static size_t position_of(const char *list, size_t i)
{
	size_t at = position(list, wanted[i].name);

	return at == SIZE_MAX && wanted[i].also ? position(list, wanted[i].also) : at;
}

int velero_restore_order_check(const char *priorities, json_t **ret, struct cairn_err *err)
{
	const char *list = priorities ? priorities : velero_restore_order_default;
	kube_auto_json json_t *found = json_array();

	if (!found)
		return cairn_err_nomem(err, "an order");
	for (size_t i = 0; i < N_WANTED; i++)
		for (size_t j = i + 1; j < N_WANTED; j++) {
			bool matters = wanted[i].source && (wanted[j].source || wanted[j].user);
			size_t first = position_of(list, i), second = position_of(list, j);

			/* Two that are not in the list are restored in the order of their
			 * names; report this only where the order matters. */
			if (first < second || (first == second && !matters))
				continue;
			if (json_array_append_new(found, json_pack("{s:s, s:s, s:b}", "first",
								   wanted[i].name, "second",
								   wanted[j].name, "matters",
								   (int)matters)))
				return cairn_err_nomem(err, "an order");
		}
	*ret = cairn_take(found);
	return 0;
}

static const char *flag_in(const json_t *words, const char *name)
{
	size_t i, n = strlen(name);
	json_t *word;

	json_array_foreach(words, i, word)
	{
		const char *text = json_string_value(word);

		if (!text || strncmp(text, "--", 2) != 0 || strncmp(text + 2, name, n) != 0)
			continue;
		if (text[2 + n] == '=')
			return text + 3 + n;
		if (!text[2 + n])
			return json_string_value(json_array_get(words, i + 1));
	}
	return NULL;
}

const char *velero_deployment_flag(const json_t *deployment, const char *name)
{
	size_t i;
	json_t *container;

	json_array_foreach(kube_at(deployment, "spec", "template", "spec", "containers"), i,
			   container)
	{
		const char *value = flag_in(kube_at(container, "args"), name);

		if (!value)
			value = flag_in(kube_at(container, "command"), name);
		if (value)
			return value;
	}
	return NULL;
}
