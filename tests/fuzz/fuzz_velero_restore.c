/* SPDX-License-Identifier: Apache-2.0 */

/* Items of a backup as they come to a restore: the JSON of a claim, a VolumeSnapshot or a content.
 * The first byte chooses the action. What an action changes stays an object with a name, and what
 * it names has names. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/velero_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct velero_request *request, const struct velero_outcome *outcome)
{
	must(outcome->n_related <= VELERO_RELATED_MAX);
	for (size_t i = 0; i < outcome->n_related; i++)
		must(outcome->related[i].resource && outcome->related[i].name[0]);
	if (outcome->changed && !outcome->skip) {
		must(json_is_object(request->item));
		must(kube_name(request->item)[0] != '\0');
		must(kube_at(request->item, "spec") != NULL);
	}
}

static void run(const struct velero_action *action, bool csi_enabled, json_t *item)
{
	struct velero_world world;
	struct velero_outcome outcome = {0};
	struct cairn_err err = {0};
	json_t *restore = json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:{s:s}}}", "metadata", "name",
				    "r", "namespace", "velero", "uid", "u", "spec", "backupName",
				    "b1", "namespaceMapping", "a", "b");
	struct velero_request request = {
		.world = &world, .item = kube_copy(item), .original = item, .owner = restore};

	must(restore && request.item);
	/* Never connected to: there is no such file. */
	velero_world_init(&world, "/nonexistent/kubeconfig", csi_enabled);
	if (action->execute(&request, &outcome, &err) == 0)
		check(&request, &outcome);
	else
		must(err.code != 0 && err.msg[0] != '\0');
	velero_world_done(&world);
	json_decref(request.item);
	json_decref(restore);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {VELERO_ACTION_PVC, VELERO_ACTION_VS, VELERO_ACTION_VSC,
					    VELERO_ACTION_PV};
	json_t *item = NULL;

	if (size < 1 ||
	    kube_json_parse((const char *)data + 1, size - 1, &item, &(struct cairn_err){0}))
		return 0;
	/* As the service checks it before an action sees it. */
	if (json_is_object(item) && kube_name(item)[0])
		run(velero_action_find(VELERO_RESTORE, names[data[0] & 3]), (data[0] & 4) != 0,
		    item);
	json_decref(item);
	return 0;
}
