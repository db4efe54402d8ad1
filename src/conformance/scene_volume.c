/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/scene_volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "conformance/driver_target.h"
#include "csi_controller.pb-c.h"
#include "proto/message.h"

/* The accessibility_requirements: this node, required and preferred. */
static void add_topology(struct cairn_buf *buf, uint32_t field, const struct request_map *segments)
{
	cairn_auto_buf struct cairn_buf topology = CAIRN_BUF_INIT(REQUEST_MAX);
	cairn_auto_buf struct cairn_buf both = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_map(&topology, 1, segments);
	conformance_request_add_bytes(&both, 1, topology.data, topology.len);
	conformance_request_add_bytes(&both, 2, topology.data, topology.len);
	conformance_request_add_bytes(buf, field, both.data, both.len);
	buf->failed = buf->failed || cairn_buf_failed(&topology) || cairn_buf_failed(&both);
}

static void add_source(struct cairn_buf *buf, uint32_t field, const char *snapshot_id)
{
	cairn_auto_buf struct cairn_buf snapshot = CAIRN_BUF_INIT(REQUEST_MAX);
	cairn_auto_buf struct cairn_buf source = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&snapshot, 1, snapshot_id);
	conformance_request_add_bytes(&source, 1, snapshot.data, snapshot.len);
	conformance_request_add_bytes(buf, field, source.data, source.len);
	buf->failed = buf->failed || cairn_buf_failed(&snapshot) || cairn_buf_failed(&source);
}

static void scene_volume_write_request(const struct target *t, const struct volume *v,
				       struct cairn_buf *buf)
{
	conformance_request_add_string(buf, 1, v->name);
	conformance_request_add_capacity(buf, 2, v->wanted);
	conformance_request_add_capability(buf, 3);
	conformance_request_add_map(buf, 4, &t->parameters);
	conformance_request_add_map(buf, 5, &t->secrets);
	if (v->from_snapshot)
		add_source(buf, 6, v->from_snapshot);
	if (t->has_topology && t->segments.n > 0)
		add_topology(buf, 7, &t->segments);
}

static int keep_answer(struct volume *v, const Csi__V1__Volume *made, struct cairn_err *err)
{
	int rc = 0;

	if (!made || !made->volume_id[0])
		return cairn_err_set(err, CAIRN_INTERNAL, "CreateVolume: OK without a volume id");
	v->size = made->capacity_bytes > 0 ? (uint64_t)made->capacity_bytes : v->wanted;
	for (size_t i = 0; !rc && i < made->n_volume_context; i++)
		rc = conformance_request_map_add(&v->context, made->volume_context[i]->key,
						 made->volume_context[i]->value, err);
	if (rc)
		return rc;
	v->id = cairn_strdup(made->volume_id);
	return v->id ? 0 : cairn_err_nomem(err, "volume");
}

static int scene_volume_call_create(struct target *t, struct volume *v, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	int rc;

	scene_volume_write_request(t, v, &request);
	v->tried = true;
	rc = conformance_target_unary(t, "/csi.v1.Controller/CreateVolume", &request,
				      &csi__v1__create_volume_response__descriptor, &message, err);
	v->tried = rc == 0 || conformance_target_unsure(rc);
	if (rc)
		return rc;
	return keep_answer(
		v, ((const Csi__V1__CreateVolumeResponse *)(const void *)message)->volume, err);
}

int conformance_volume_create(struct target *t, struct volume *v, const char *dir,
			      struct cairn_err *err)
{
	v->fd = -1;
	v->dir = cairn_printf("%s/%s", dir, v->name);
	v->staging_path = cairn_printf("%s/%s/staging", dir, v->name);
	v->target_path = cairn_printf("%s/%s/device", dir, v->name);
	if (!v->dir || !v->staging_path || !v->target_path)
		return cairn_err_nomem(err, "volume");
	return scene_volume_call_create(t, v, err);
}

int conformance_volume_delete(struct target *t, struct volume *v, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	int rc;

	conformance_request_add_string(&request, 1, v->id);
	conformance_request_add_map(&request, 2, &t->secrets);
	rc = conformance_target_unary(t, "/csi.v1.Controller/DeleteVolume", &request,
				      &csi__v1__delete_volume_response__descriptor, &message, err);
	if (!rc) {
		free(v->id);
		v->id = NULL;
		v->tried = false;
	}
	return rc;
}

int conformance_volume_remove(struct target *t, struct volume *v, struct cairn_err *err)
{
	struct cairn_err later;
	int rc = conformance_volume_unpublish(t, v, err);
	int rc2 = 0;

	if (!v->id && v->tried)
		rc2 = scene_volume_call_create(t, v, rc ? &later : err);
	if (!rc)
		rc = rc2;
	if (v->id)
		rc2 = conformance_volume_delete(t, v, rc ? &later : err);
	return rc ? rc : rc2;
}

void conformance_volume_free(struct volume *v)
{
	if (v->dir) {
		/* Files that a driver left there are not removed. */
		rmdir(v->staging_path);
		rmdir(v->dir);
	}
	conformance_request_map_done(&v->context);
	conformance_request_map_done(&v->publish_context);
	free(v->name);
	free(v->id);
	free(v->from_snapshot);
	free(v->dir);
	free(v->staging_path);
	free(v->target_path);
	*v = (struct volume){.fd = -1};
}
