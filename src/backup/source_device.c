/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/source_device.h"

#include <unistd.h>

#include "backup/cluster/cluster_objects.h"
#include "backup/device_file.h"
#include "backup/device_filesystem.h"
#include "backup/source.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "kube/timestamp.h"

struct device_source {
	struct backup_source base;
	struct backup_progress progress;
	struct cairn_client *client;
	struct device_file file;
	/* Own the texts of `base`. */
	char *volume_id;
	char *volume_name;
	char *snapshot_id;
	char *snapshot_name;
	char *namespace_name;
	char *kubernetes;
};

static struct device_source *source_device_own(struct backup_source *source)
{
	return (struct device_source *)source;
}

static void device_close(struct backup_source *source)
{
	struct device_source *device = source_device_own(source);

	cairn_client_free(device->client);
	if (device->file.fd >= 0)
		close(device->file.fd);
	free(device->volume_id);
	free(device->volume_name);
	free(device->snapshot_id);
	free(device->snapshot_name);
	free(device->namespace_name);
	free(device->kubernetes);
	free(device);
}

static int device_reader_open(struct backup_source *source, struct store_reader **ret,
			      struct cairn_err *err)
{
	return backup_device_file_reader(&source_device_own(source)->file, ret, err);
}

/* A listing that is copied into a sink. */
struct taking {
	struct device_source *device;
	struct block_sink sink;
	int rc;
	struct cairn_err *err;
};

static int source_device_take(void *arg, const struct cairn_block *block)
{
	struct taking *taking = arg;
	struct block_extent extent = {.offset = block->offset, .length = block->length};

	if (backup_cancelled(&taking->device->progress))
		taking->rc = cairn_err_set(taking->err, CAIRN_CANCELLED, "interrupted");
	else
		taking->rc = taking->sink.emit(taking->sink.arg, &extent, taking->err);
	return taking->rc;
}

/* The sizes must agree: otherwise the listing is of another volume than the device. */
static int source_device_check_size(const struct device_source *device,
				    struct cairn_listing *listing, struct cairn_err *err)
{
	struct cairn_listing_info info = {.size = sizeof(info)};

	cairn_listing_info(listing, &info);
	if (info.capacity > device->base.size)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the service speaks of %llu bytes, the device has %llu",
				     (unsigned long long)info.capacity,
				     (unsigned long long)device->base.size);
	return 0;
}

static int source_device_list(struct device_source *device, const char *base,
			      struct block_sink sink, struct cairn_err *err)
{
	struct cairn_listing_query query = {
		.size = sizeof(query),
		.namespace_name = device->namespace_name,
		.snapshot = device->snapshot_name,
		.base_id = base,
	};
	struct taking taking = {.device = device, .sink = sink, .err = err};
	struct cairn_listing *listing = NULL;
	struct cairn_client_error error = {0};
	int rc = cairn_listing_new(device->client, &query, &listing, &error);

	if (rc == 0)
		rc = cairn_listing_each(listing, source_device_take, &taking, &error);
	if (taking.rc)
		rc = taking.rc;
	else if (rc < 0)
		rc = cairn_err_set(err, error.code, "%s", error.message);
	else
		rc = source_device_check_size(device, listing, err);
	cairn_listing_free(listing);
	return rc;
}

static int device_changed(struct backup_source *source, const char *base, struct block_sink sink,
			  struct cairn_err *err)
{
	return source_device_list(source_device_own(source), base, sink, err);
}

static int device_allocated(struct backup_source *source, struct block_sink sink,
			    struct cairn_err *err)
{
	return source_device_list(source_device_own(source), NULL, sink, err);
}

static const struct backup_source_ops device_ops = {
	.name = "device",
	.close = device_close,
	.reader_open = device_reader_open,
	.changed = device_changed,
	.allocated = device_allocated,
};

/* Collects the objects that are stored with the backup: the snapshot's and those that the
 * caller gave, which the device must be like. */
static int keep_objects(struct device_source *device, const struct source_device_spec *spec,
			const struct kube_snapshot *found, struct cairn_err *err)
{
	kube_auto_json json_t *objects =
		spec->objects ? json_loads(spec->objects, 0, NULL) : json_object();
	int rc;

	if (!json_is_object(objects))
		return cairn_err_set(err, CAIRN_INVALID, "objects to keep: no JSON object");
	rc = backup_device_filesystem(device->file.fd, objects, err);
	if (rc)
		return rc;
	if (found->snapshot && (json_object_set_new(objects, "volumesnapshot",
						    backup_cluster_sanitised(found->snapshot)) ||
				json_object_set_new(objects, "volumesnapshotcontent",
						    backup_cluster_sanitised(found->content))))
		return cairn_err_nomem(err, "source");
	device->kubernetes = json_dumps(objects, JSON_COMPACT);
	return device->kubernetes ? 0 : cairn_err_nomem(err, "source");
}

static int source_device_look_up(struct device_source *device,
				 const struct source_device_spec *spec, struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	cairn_cleanup(kube_client_freep) struct kube_client *kube = NULL;
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot found = {0};
	struct kube_config_options where = {.kubeconfig = spec->client.kubeconfig,
					    .context = spec->client.context};
	const char *claim = NULL;
	int rc = kube_config_load(&where, &config, err);

	if (!rc)
		rc = kube_client_new(config, NULL, &kube, err);
	if (!rc)
		rc = kube_snapshot_get(kube, spec->namespace_name, spec->snapshot, NULL, &found,
				       err);
	if (rc)
		return rc;
	json_unpack(found.snapshot, "{s:{s:{s:s}}}", "spec", "source", "persistentVolumeClaimName",
		    &claim);
	if (!device->snapshot_id)
		device->snapshot_id = cairn_strdup(found.handle);
	if (!device->volume_id)
		device->volume_id = cairn_strdup(found.volume_handle ? found.volume_handle : "");
	if (!device->volume_name)
		device->volume_name =
			cairn_printf("%s/%s", spec->namespace_name, claim ? claim : spec->snapshot);
	device->base.dated = kube_time_parse(kube_str(found.snapshot, "status", "creationTime"),
					     &device->base.created_ns);
	return keep_objects(device, spec, &found, err);
}

static int source_device_name_it(struct device_source *device,
				 const struct source_device_spec *spec, struct cairn_err *err)
{
	int rc = 0;

	device->volume_id = spec->volume_id ? cairn_strdup(spec->volume_id) : NULL;
	device->snapshot_id = spec->snapshot_id ? cairn_strdup(spec->snapshot_id) : NULL;
	device->volume_name = spec->volume_name ? cairn_strdup(spec->volume_name) : NULL;
	device->snapshot_name = cairn_strdup(spec->snapshot);
	device->namespace_name = cairn_strdup(spec->namespace_name);
	if (!device->volume_id || !device->snapshot_id || !device->volume_name)
		rc = source_device_look_up(device, spec, err);
	else if (spec->objects)
		rc = keep_objects(device, spec, &(struct kube_snapshot){0}, err);
	if (rc)
		return rc;
	if (!device->volume_id || !device->snapshot_id || !device->volume_name ||
	    !device->snapshot_name || !device->namespace_name)
		return cairn_err_nomem(err, "source");
	device->base.volume_id = device->volume_id;
	device->base.volume_name = device->volume_name;
	device->base.snapshot_id = device->snapshot_id;
	device->base.snapshot_name = device->snapshot_name;
	device->base.kubernetes = device->kubernetes;
	return 0;
}

int backup_source_device(const struct source_device_spec *spec, struct backup_source **ret,
			 struct cairn_err *err)
{
	struct device_source *device = cairn_calloc(1, sizeof(*device));
	cairn_cleanup(backup_source_closep) struct backup_source *source = NULL;
	struct cairn_client_options options = spec->client;
	struct cairn_client_error error = {0};
	int rc;

	if (!device)
		return cairn_err_nomem(err, "source");
	source = &device->base;
	source->ops = &device_ops;
	source->created_ns = cairn_now_ns();
	device->progress = spec->progress;
	device->file.fd = -1;
	rc = backup_device_file_open(spec->device, 0, &device->file, err);
	source->size = device->file.size;
	if (!rc)
		rc = source_device_name_it(device, spec, err);
	if (rc)
		return rc;
	options.size = sizeof(options);
	if (cairn_client_new(&options, &device->client, &error) < 0)
		return cairn_err_set(err, error.code, "%s", error.message);
	*ret = cairn_take(source);
	return 0;
}
