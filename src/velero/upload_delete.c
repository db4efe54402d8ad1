/* SPDX-License-Identifier: Apache-2.0 */

/* A Backup is deleted: asks the data mover to forget the volumes that it moved. */

#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/moved_backup.h"
#include "velero/world.h"

int velero_upload_delete(struct velero_request *request, struct velero_outcome *ret,
			 struct cairn_err *err)
{
	const char *location = kube_str(request->owner, "spec", "storageLocation");
	const char *ns = kube_namespace(request->owner);
	kube_auto_json json_t *object = NULL;
	struct kube_client *client;
	int rc;

	(void)ret;
	if (!location)
		return cairn_err_set(err, CAIRN_INVALID, "the Backup has no storage location");
	rc = velero_forget_object(request->item, request->owner, location, &object, err);
	if (rc || !object)
		return rc;
	rc = velero_world_client(request->world, &client, err);
	if (!rc)
		rc = kube_create(client, KUBE_REF(&kube_configmaps, ns, NULL), object,
				 &request->how, NULL, err);
	return rc == CAIRN_EXISTS ? 0 : rc;
}
