/* SPDX-License-Identifier: Apache-2.0 */

/* Publishes a volume on this node and reverses it. */

#include "conformance/scene_volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "conformance/driver_target.h"
#include "csi_controller.pb-c.h"
#include "csi_node.pb-c.h"
#include "proto/message.h"

/* A call with an empty response. */
static int call_empty(struct target *t, const char *path, const struct cairn_buf *request,
		      const ProtobufCMessageDescriptor *type, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;

	return conformance_target_unary(t, path, request, type, &message, err);
}

static int publish_volume_attach(struct target *t, struct volume *v, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__ControllerPublishVolumeResponse *said;
	int rc;

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_string(&request, 2, t->node_id);
	conformance_request_add_capability(&request, 3);
	conformance_request_add_map(&request, 5, &t->secrets);
	conformance_request_add_map(&request, 6, &v->context);
	v->attached = true;
	rc = conformance_target_unary(t, "/csi.v1.Controller/ControllerPublishVolume", &request,
				      &csi__v1__controller_publish_volume_response__descriptor,
				      &message, err);
	if (rc)
		return rc;
	said = (const void *)message;
	for (size_t i = 0; !rc && i < said->n_publish_context; i++)
		rc = conformance_request_map_add(&v->publish_context, said->publish_context[i]->key,
						 said->publish_context[i]->value, err);
	return rc;
}

static int publish_volume_stage(struct target *t, struct volume *v, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_map(&request, 2, &v->publish_context);
	conformance_request_add_string(&request, 3, v->staging_path);
	conformance_request_add_capability(&request, 4);
	conformance_request_add_map(&request, 5, &t->secrets);
	conformance_request_add_map(&request, 6, &v->context);
	v->staged = true;
	return call_empty(t, "/csi.v1.Node/NodeStageVolume", &request,
			  &csi__v1__node_stage_volume_response__descriptor, err);
}

static int publish_volume_publish(struct target *t, struct volume *v, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_map(&request, 2, &v->publish_context);
	if (t->must_stage)
		conformance_request_add_string(&request, 3, v->staging_path);
	conformance_request_add_string(&request, 4, v->target_path);
	conformance_request_add_capability(&request, 5);
	conformance_request_add_map(&request, 7, &t->secrets);
	conformance_request_add_map(&request, 8, &v->context);
	v->published = true;
	return call_empty(t, "/csi.v1.Node/NodePublishVolume", &request,
			  &csi__v1__node_publish_volume_response__descriptor, err);
}

static int make_paths(struct volume *v, struct cairn_err *err)
{
	if (mkdir(v->dir, 0700) != 0 && errno != EEXIST)
		return cairn_err_sys(err, errno, "make '%s'", v->dir);
	if (mkdir(v->staging_path, 0700) != 0 && errno != EEXIST)
		return cairn_err_sys(err, errno, "make '%s'", v->staging_path);
	return 0;
}

static int publish_volume_open_device(struct volume *v, struct cairn_err *err)
{
	struct stat st;

	v->fd = open(v->target_path, O_RDWR | O_CLOEXEC);
	if (v->fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", v->target_path);
	if (fstat(v->fd, &st) != 0 || !S_ISBLK(st.st_mode))
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "NodePublishVolume put no block device at '%s'",
				     v->target_path);
	return 0;
}

int conformance_volume_publish(struct target *t, struct volume *v, struct cairn_err *err)
{
	int rc = make_paths(v, err);

	if (!rc && t->can_attach)
		rc = publish_volume_attach(t, v, err);
	if (!rc && t->must_stage)
		rc = publish_volume_stage(t, v, err);
	if (!rc)
		rc = publish_volume_publish(t, v, err);
	return rc ? rc : publish_volume_open_device(v, err);
}

/* Sends the volume's id and one more string: the request of all reverse steps. */
static int step_back(struct target *t, const char *path, const struct volume *v, const char *second,
		     const ProtobufCMessageDescriptor *type, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	int rc;

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_string(&request, 2, second);
	if (type == &csi__v1__controller_unpublish_volume_response__descriptor)
		conformance_request_add_map(&request, 3, &t->secrets);
	rc = call_empty(t, path, &request, type, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc; /* the step was not completed */
}

int conformance_volume_unpublish(struct target *t, struct volume *v, struct cairn_err *err)
{
	struct cairn_err later;
	int first = 0;
	int rc = 0;

	cairn_closep(&v->fd);
	v->fd = -1;
	if (v->published)
		rc = step_back(t, "/csi.v1.Node/NodeUnpublishVolume", v, v->target_path,
			       &csi__v1__node_unpublish_volume_response__descriptor, err);
	v->published = v->published && rc;
	first = rc;
	if (v->staged)
		rc = step_back(t, "/csi.v1.Node/NodeUnstageVolume", v, v->staging_path,
			       &csi__v1__node_unstage_volume_response__descriptor,
			       first ? &later : err);
	v->staged = v->staged && rc;
	first = first ? first : rc;
	if (v->attached)
		rc = step_back(t, "/csi.v1.Controller/ControllerUnpublishVolume", v, t->node_id,
			       &csi__v1__controller_unpublish_volume_response__descriptor,
			       first ? &later : err);
	v->attached = v->attached && rc;
	conformance_request_map_done(&v->publish_context);
	return first ? first : rc;
}

static int expand_node(struct target *t, struct volume *v, uint64_t size, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_string(&request, 2, v->target_path);
	conformance_request_add_capacity(&request, 3, size);
	if (t->must_stage)
		conformance_request_add_string(&request, 4, v->staging_path);
	conformance_request_add_capability(&request, 5);
	conformance_request_add_map(&request, 6, &t->secrets);
	return call_empty(t, "/csi.v1.Node/NodeExpandVolume", &request,
			  &csi__v1__node_expand_volume_response__descriptor, err);
}

int conformance_volume_expand(struct target *t, struct volume *v, uint64_t size,
			      struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__ControllerExpandVolumeResponse *said;
	int rc;

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_capacity(&request, 2, size);
	conformance_request_add_map(&request, 3, &t->secrets);
	conformance_request_add_capability(&request, 4);
	rc = conformance_target_unary(t, "/csi.v1.Controller/ControllerExpandVolume", &request,
				      &csi__v1__controller_expand_volume_response__descriptor,
				      &message, err);
	if (rc)
		return rc;
	said = (const void *)message;
	v->size = said->capacity_bytes > 0 ? (uint64_t)said->capacity_bytes : size;
	if (said->node_expansion_required && t->can_expand_node)
		rc = expand_node(t, v, v->size, err);
	return rc;
}
