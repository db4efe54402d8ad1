/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_driver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "csi_client/capabilities.h"
#include "csi_client/driver_identity.h"
#include "csi_client/json_map.h"
#include "csi_node.pb-c.h"
#include "kube/object.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/unary.h"
#include "proto/message.h"

#define CALL_MS    60000U
#define CONNECT_MS 10000U
#define NOTE       "volume"
#define NOTE_MAX   4096U

struct cluster_driver {
	struct net_channel *channel;
	char *name;
	char *dir;
	bool must_stage;
	/* The published volume; NULL if there is none. */
	char *volume_id;
	char *place;
	char *staging;
	char *target;
	int note; /* locked as long as this process lives */
};

/* --- calls --- */

static int cluster_driver_ask(struct cluster_driver *driver, const char *path, const void *request,
			      const ProtobufCMessageDescriptor *type, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	int rc = net_unary(driver->channel, path, CALL_MS, request, type, &answer, err);

	/* Without an err the wrapped code would be UNKNOWN, and callers test for NOT_FOUND. */
	if (rc)
		(void)cairn_err_wrap(err, "%s", path + strlen("/csi.v1."));
	return rc;
}

static int cluster_driver_learn(struct cluster_driver *driver, struct cairn_err *err)
{
	const struct csi_client client = {.channel = driver->channel, .timeout_ms = CALL_MS};
	struct csi_client_node node = {0};
	int rc = csi_client_name(&client, &driver->name, NULL, err);

	if (!rc)
		rc = csi_client_node(&client, &node, err);
	driver->must_stage = node.stage;
	return rc;
}

int backup_cluster_driver_open(const char *endpoint, const char *dir, struct cluster_driver **ret,
			       struct cairn_err *err)
{
	cairn_cleanup(backup_cluster_driver_closep) struct cluster_driver *driver =
		cairn_calloc(1, sizeof(*driver));
	struct net_channel_options options = {.target = endpoint};
	int rc;

	if (!driver)
		return cairn_err_nomem(err, "driver");
	driver->note = -1;
	driver->dir = cairn_strdup(dir);
	if (!driver->dir)
		return cairn_err_nomem(err, "driver");
	rc = net_channel_new(&options, &driver->channel, err);
	if (!rc)
		rc = net_channel_connect(driver->channel, CONNECT_MS, err);
	if (!rc)
		rc = cluster_driver_learn(driver, err);
	if (rc)
		return cairn_err_wrap(err, "driver at '%s'", endpoint);
	*ret = cairn_take(driver);
	return 0;
}

/* --- unpublishing --- */

static int cluster_driver_take_back(struct cluster_driver *driver, const char *volume_id,
				    const char *staging, const char *target, struct cairn_err *err)
{
	Csi__V1__NodeUnpublishVolumeRequest unpublish;
	Csi__V1__NodeUnstageVolumeRequest unstage;
	int rc;

	csi__v1__node_unpublish_volume_request__init(&unpublish);
	unpublish.volume_id = proto_text(volume_id);
	unpublish.target_path = proto_text(target);
	rc = cluster_driver_ask(driver, "/csi.v1.Node/NodeUnpublishVolume", &unpublish,
				&csi__v1__node_unpublish_volume_response__descriptor, err);
	if ((rc && rc != CAIRN_NOT_FOUND) || !driver->must_stage)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	csi__v1__node_unstage_volume_request__init(&unstage);
	unstage.volume_id = proto_text(volume_id);
	unstage.staging_target_path = proto_text(staging);
	rc = cluster_driver_ask(driver, "/csi.v1.Node/NodeUnstageVolume", &unstage,
				&csi__v1__node_unstage_volume_response__descriptor, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static void remove_place(const char *place, const char *staging, const char *target)
{
	cairn_auto_free char *note = cairn_printf("%s/" NOTE, place);

	(void)unlink(target);
	(void)rmdir(staging);
	if (note)
		(void)unlink(note);
	(void)rmdir(place);
}

int backup_cluster_driver_unpublish(struct cluster_driver *driver, struct cairn_err *err)
{
	int rc = 0;

	if (driver->volume_id)
		rc = cluster_driver_take_back(driver, driver->volume_id, driver->staging,
					      driver->target, err);
	if (!rc && driver->place)
		remove_place(driver->place, driver->staging, driver->target);
	cairn_closep(&driver->note);
	driver->note = -1;
	free(driver->volume_id);
	free(driver->place);
	free(driver->staging);
	free(driver->target);
	driver->volume_id = driver->place = driver->staging = driver->target = NULL;
	return rc;
}

void backup_cluster_driver_close(struct cluster_driver *driver)
{
	(void)backup_cluster_driver_unpublish(driver, NULL);
	net_channel_free(driver->channel);
	free(driver->name);
	free(driver->dir);
	free(driver);
}

/* Cleans up one directory, unless the process that created it is alive. */
static int cluster_driver_sweep_one(struct cluster_driver *driver, const char *name,
				    struct cairn_err *err)
{
	cairn_auto_free char *place = cairn_printf("%s/%s", driver->dir, name);
	cairn_auto_free char *staging = cairn_printf("%s/%s/staging", driver->dir, name);
	cairn_auto_free char *target = cairn_printf("%s/%s/device", driver->dir, name);
	cairn_auto_free char *path = cairn_printf("%s/%s/" NOTE, driver->dir, name);
	cairn_auto_free char *note = NULL;
	cairn_auto_fd int fd = -1;
	size_t n;
	char *id;
	int rc;

	if (!place || !staging || !target || !path)
		return cairn_err_nomem(err, "driver");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
		return 0;
	rc = cairn_file_read(AT_FDCWD, path, NOTE_MAX, &note, &n, err);
	id = rc ? NULL : strchr(note, '\n');
	if (!id)
		return rc;
	*id++ = '\0';
	if (strcmp(note, driver->name) != 0)
		return 0;
	rc = cluster_driver_take_back(driver, id, staging, target, err);
	if (!rc)
		remove_place(place, staging, target);
	return rc;
}

int backup_cluster_driver_sweep(struct cluster_driver *driver, struct cairn_err *err)
{
	DIR *dir = opendir(driver->dir);
	const struct dirent *entry;
	int rc = 0;

	if (!dir)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "open '%s'", driver->dir);
	while (!rc && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			rc = cluster_driver_sweep_one(driver, entry->d_name, err);
	closedir(dir);
	return rc;
}

/* --- publishing --- */

/* Creates and locks the note before the driver is called, so that a later run can undo
 * everything if this process is killed. */
static int make_place(struct cluster_driver *driver, const char *name, struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	cairn_auto_free char *text = cairn_printf("%s\n%s", driver->name, driver->volume_id);

	driver->place = cairn_printf("%s/%s", driver->dir, name);
	driver->staging = cairn_printf("%s/%s/staging", driver->dir, name);
	driver->target = cairn_printf("%s/%s/device", driver->dir, name);
	path = cairn_printf("%s/%s/" NOTE, driver->dir, name);
	if (!text || !driver->place || !driver->staging || !driver->target || !path)
		return cairn_err_nomem(err, "driver");
	if ((mkdir(driver->dir, 0700) != 0 && errno != EEXIST) || mkdir(driver->place, 0700) != 0 ||
	    mkdir(driver->staging, 0700) != 0)
		return cairn_err_sys(err, errno, "make '%s'", driver->place);
	driver->note = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (driver->note < 0 || flock(driver->note, LOCK_EX | LOCK_NB) != 0 ||
	    cairn_write_full(driver->note, text, strlen(text)) != 0)
		return cairn_err_sys(err, errno, "write '%s'", path);
	return 0;
}

/* Block access, single node writer. */
struct capability {
	Csi__V1__VolumeCapability capability;
	Csi__V1__VolumeCapability__BlockVolume block;
	Csi__V1__VolumeCapability__AccessMode mode;
};

static void capability_init(struct capability *c)
{
	csi__v1__volume_capability__init(&c->capability);
	csi__v1__volume_capability__block_volume__init(&c->block);
	csi__v1__volume_capability__access_mode__init(&c->mode);
	c->capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c->capability.block = &c->block;
	c->mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	c->capability.access_mode = &c->mode;
}

static int cluster_driver_stage(struct cluster_driver *driver, json_t *attributes,
				struct cairn_err *err)
{
	cairn_cleanup(proto_text_map_done) struct proto_text_map context = {0};
	Csi__V1__NodeStageVolumeRequest request;
	struct capability capability;
	int rc = csi_client_json_map(
		attributes, &csi__v1__node_stage_volume_request__volume_context_entry__descriptor,
		&context, err);

	if (rc)
		return rc;

	csi__v1__node_stage_volume_request__init(&request);
	capability_init(&capability);
	request.n_volume_context = context.n;
	request.volume_context = context.entries;
	request.volume_id = driver->volume_id;
	request.staging_target_path = driver->staging;
	request.volume_capability = &capability.capability;
	return cluster_driver_ask(driver, "/csi.v1.Node/NodeStageVolume", &request,
				  &csi__v1__node_stage_volume_response__descriptor, err);
}

static int cluster_driver_do_publish(struct cluster_driver *driver, json_t *attributes,
				     struct cairn_err *err)
{
	cairn_cleanup(proto_text_map_done) struct proto_text_map context = {0};
	Csi__V1__NodePublishVolumeRequest request;
	struct capability capability;
	int rc = csi_client_json_map(
		attributes, &csi__v1__node_publish_volume_request__volume_context_entry__descriptor,
		&context, err);

	if (rc)
		return rc;

	csi__v1__node_publish_volume_request__init(&request);
	capability_init(&capability);
	request.n_volume_context = context.n;
	request.volume_context = context.entries;
	request.volume_id = driver->volume_id;
	if (driver->must_stage)
		request.staging_target_path = driver->staging;
	request.target_path = driver->target;
	request.volume_capability = &capability.capability;
	return cluster_driver_ask(driver, "/csi.v1.Node/NodePublishVolume", &request,
				  &csi__v1__node_publish_volume_response__descriptor, err);
}

static int cluster_driver_check_volume(const struct cluster_driver *driver, const json_t *volume,
				       struct cairn_err *err)
{
	const char *name = kube_str(volume, "spec", "csi", "driver");

	if (!name || strcmp(name, driver->name) != 0)
		return cairn_err_set(
			err, CAIRN_PRECONDITION,
			"PersistentVolume '%s' is of the driver '%s', and the socket of "
			"'%s'",
			kube_name(volume), name ? name : "", driver->name);
	if (kube_at(volume, "spec", "csi", "nodeStageSecretRef") ||
	    kube_at(volume, "spec", "csi", "nodePublishSecretRef"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "PersistentVolume '%s' wants secrets: let a Job do it",
				     kube_name(volume));
	return 0;
}

int backup_cluster_driver_publish(struct cluster_driver *driver, const json_t *volume,
				  const char *name, const char **ret_path, struct cairn_err *err)
{
	const char *handle = kube_str(volume, "spec", "csi", "volumeHandle");
	json_t *attributes = kube_at(volume, "spec", "csi", "volumeAttributes");
	int rc = cluster_driver_check_volume(driver, volume, err);

	if (rc)
		return rc;
	driver->volume_id = cairn_strdup(handle ? handle : "");
	rc = driver->volume_id ? make_place(driver, name, err) : cairn_err_nomem(err, "volume");
	if (!rc && driver->must_stage)
		rc = cluster_driver_stage(driver, attributes, err);
	if (!rc)
		rc = cluster_driver_do_publish(driver, attributes, err);
	if (!rc)
		*ret_path = driver->target;
	return rc;
}
