/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_attacher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/device/attacher.h"
#include "pool/device/loop_device.h"
#include "pool/locks.h"
#include "pool/rbd/rbd_clients.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_export.h"
#include "pool/rbd/rbd_export_start.h"
#include "pool/rbd/rbd_locks.h"
#include "pool/rbd/rbd_mapping.h"

/* Longer than a process that has ended takes to be noticed. */
#define LOCK_WAIT_MS 3000U

/* Where files are exported; overridden by $CAIRN_RUN_DIR. */
#define RUN_DIR "/run/cairn"

struct rbd_attacher {
	struct attacher base;
	struct rbd_attacher_spec spec;
	char *address;
	struct rbd_address parsed;
	char dir[PATH_MAX / 2]; /* of this pool's exports */
};

struct export_path {
	char text[PATH_MAX];
};

static struct rbd_attacher *attacher_of(struct attacher *base)
{
	return (struct rbd_attacher *)base;
}

static void rbd_attacher_close(struct attacher *base)
{
	free(attacher_of(base)->address);
	free(base);
}

static struct export_path export_path(const struct rbd_attacher *attacher, struct store_ref ref)
{
	struct export_path path;

	snprintf(path.text, sizeof(path.text), "%s/%s", attacher->dir, ref.id);
	return path;
}

/* ---- devices of this host ------------------------------------------------------ */

/* A device of krbd or rbd-nbd, or "". Snapshots are always exported. */
static int find_mapped(const struct rbd_attacher *attacher, struct store_ref ref,
		       char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct rbd_mapping mapping = {.root = "", .address = &attacher->parsed, .image = ref.id};

	ret_device[0] = '\0';
	return ref.kind == STORE_VOLUME ? rbd_mapping_find(&mapping, ret_device, err) : 0;
}

/* The only device of an object. */
static int list_one(struct device_one one, struct device_list *ret, struct cairn_err *err)
{
	int rc = one.path[0] ? pool_device_mount_point(one.path, &one.mount, err) : 0;

	if (rc || !one.path[0])
		return rc;
	ret->list = cairn_calloc(1, sizeof(one));
	if (!ret->list) {
		free(one.mount);
		return cairn_err_nomem(err, "devices");
	}
	ret->list[0] = one;
	ret->n = 1;
	return 0;
}

struct export_found {
	struct export_path file;
	enum rbd_export_state state;
};

static int find_export(const struct rbd_attacher *attacher, struct store_ref ref,
		       struct export_found *ret, struct cairn_err *err)
{
	ret->file = export_path(attacher, ref);
	return rbd_export_look(ret->file.text, &ret->state, err);
}

/* The device of an export that has ended: it can only be unmounted and detached. */
static int list_ended(const char *file, struct device_list *ret, struct cairn_err *err)
{
	struct device_one one = {.ended = true};
	int rc = pool_loop_find_path(file, one.path, err);

	return rc ? rc : list_one(one, ret, err);
}

static int list_mapped(const struct rbd_attacher *attacher, struct store_ref ref,
		       struct device_list *ret, struct cairn_err *err)
{
	struct device_one one = {0};
	int rc = find_mapped(attacher, ref, one.path, err);

	if (!rc && one.path[0])
		rc = pool_device_is_read_only(one.path, &one.read_only, err);
	return rc ? rc : list_one(one, ret, err);
}

static int rbd_attacher_list(struct attacher *base, struct store_ref ref, struct device_list *ret,
			     struct cairn_err *err)
{
	struct export_found found;
	int rc = find_export(attacher_of(base), ref, &found, err);

	if (rc || found.state == RBD_EXPORT_NONE)
		return rc ? rc : list_mapped(attacher_of(base), ref, ret, err);
	return found.state == RBD_EXPORT_RUNS ? pool_device_list_get(found.file.text, ret, err)
					      : list_ended(found.file.text, ret, err);
}

static int rbd_attacher_find(struct attacher *base, struct store_ref ref,
			     char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct export_found found;
	int rc = find_export(attacher_of(base), ref, &found, err);

	if (rc || found.state == RBD_EXPORT_NONE)
		return rc ? rc : find_mapped(attacher_of(base), ref, ret_device, err);
	return found.state == RBD_EXPORT_RUNS
		       ? pool_device_find(found.file.text, ret_device, err)
		       : pool_loop_find_path(found.file.text, ret_device, err);
}

/* A lock of the whole cluster, which a restore or rollback of the volume holds. */
static int rbd_attacher_lock(struct attacher *base, struct store_ref ref, int *ret_fd,
			     struct cairn_err *err)
{
	return pool_locks_take(attacher_of(base)->spec.locks, rbd_export_attach_slot(ref.id),
			       LOOP_LOCK_WAIT_MS, ret_fd, err);
}

static int end_export(const char *file, enum rbd_export_state state, struct cairn_err *err)
{
	int rc = state == RBD_EXPORT_RUNS ? pool_device_detach_locked(file, err)
					  : pool_loop_detach_path(file, err);

	return rc ? rc : rbd_export_stop(file, err);
}

/* An export without a device was left by a process that died while it attached; one that has
 * ended is replaced if nothing is mounted from it. */
static int attach_prepare(const char *file, bool *ret_runs, struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX] = "";
	enum rbd_export_state state;
	int rc = rbd_export_look(file, &state, err);

	if (!rc && state == RBD_EXPORT_RUNS)
		rc = pool_device_find(file, device, err);
	*ret_runs = device[0] != '\0';
	return rc || *ret_runs ? rc : end_export(file, state, err);
}

static int start_export(struct rbd_attacher *attacher, struct store_ref ref, bool read_only,
			const char *file, struct cairn_err *err)
{
	struct rbd_export_spec spec = {.address = attacher->address,
				       .ref = ref,
				       .file = file,
				       .read_only = read_only || ref.kind == STORE_SNAPSHOT};

	return rbd_export_start(&spec, err);
}

static int attach_export(struct rbd_attacher *attacher, struct store_ref ref, bool read_only,
			 uint64_t size, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct export_path file = export_path(attacher, ref);
	bool runs = false;
	int rc = attach_prepare(file.text, &runs, err);

	if (!rc && !runs)
		rc = start_export(attacher, ref, read_only, file.text, err);
	if (rc)
		return rc;
	rc = pool_device_attach_locked(file.text, read_only, size, ret_device, err);
	if (rc && !runs)
		(void)rbd_export_stop(file.text, NULL);
	return rc;
}

/* The lock of exports is held meanwhile: one of another node is refused, that of a dead
 * process is taken over. krbd hands the lock of the image to any client that asks, so that lock
 * does not keep others away: no other client may have the image open. */
static int attach_mapped(struct rbd_attacher *attacher, struct store_ref ref, enum rbd_device kind,
			 bool read_only, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	struct rbd_mapping mapping = {.root = "", .address = &attacher->parsed, .image = ref.id};
	cairn_auto_fd int lock = -1;
	int rc = pool_locks_take(attacher->spec.locks, rbd_export_slot(ref.id), LOCK_WAIT_MS, &lock,
				 err);

	if (rc == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it is attached on another node; detach it there first");
	if (!rc && !read_only)
		rc = rbd_clients_await_none(attacher->spec.cluster, ref.id, err);
	return rc ? rc : rbd_mapping_map(&mapping, kind, read_only, ret_device, err);
}

/* Whether the device that the object has can be kept. */
static int keep_mapped(const char *device, bool read_only, struct cairn_err *err)
{
	bool is_read_only;
	int rc = pool_device_is_read_only(device, &is_read_only, err);

	if (!rc && is_read_only && !read_only)
		return cairn_err_set(err, CAIRN_PRECONDITION, "it is attached read-only as %s",
				     device);
	return rc;
}

static int rbd_attacher_attach(struct attacher *base, struct store_ref ref, bool read_only,
			       uint64_t size, char ret_device[DEVICE_PATH_MAX],
			       struct cairn_err *err)
{
	struct rbd_attacher *attacher = attacher_of(base);
	enum rbd_device kind = RBD_DEVICE_EXPORT;
	enum rbd_export_state state = RBD_EXPORT_NONE;
	int rc = find_mapped(attacher, ref, ret_device, err);

	if (!rc && ret_device[0])
		return keep_mapped(ret_device, read_only, err);
	if (!rc)
		rc = rbd_export_look(export_path(attacher, ref).text, &state, err);
	if (!rc && state != RBD_EXPORT_RUNS && ref.kind == STORE_VOLUME)
		rc = rbd_mapping_choose("", attacher->parsed.device, &kind, err);
	/* What is left of an export that ended. */
	if (!rc && state == RBD_EXPORT_ENDED && kind != RBD_DEVICE_EXPORT)
		rc = end_export(export_path(attacher, ref).text, state, err);
	if (rc)
		return rc;
	return kind == RBD_DEVICE_EXPORT
		       ? attach_export(attacher, ref, read_only, size, ret_device, err)
		       : attach_mapped(attacher, ref, kind, read_only, ret_device, err);
}

static const char *rbd_attacher_kind(struct attacher *base, const char *device)
{
	(void)base;
	return rbd_device_name(rbd_mapping_kind(device));
}

static int rbd_attacher_detach(struct attacher *base, struct store_ref ref, struct cairn_err *err)
{
	struct export_found found;
	char device[DEVICE_PATH_MAX];
	int rc = find_export(attacher_of(base), ref, &found, err);

	if (!rc)
		rc = end_export(found.file.text, found.state, err);
	if (!rc)
		rc = find_mapped(attacher_of(base), ref, device, err);
	return rc || !device[0] ? rc : rbd_mapping_unmap(device, err);
}

/* An export of its own, which ends when the descriptor is closed. */
static int rbd_attacher_open_data(struct attacher *base, struct store_ref ref, int *ret_fd,
				  struct cairn_err *err)
{
	struct rbd_attacher *attacher = attacher_of(base);
	struct export_path file = export_path(attacher, ref);
	bool runs = false;
	int rc = attach_prepare(file.text, &runs, err);

	if (!rc && runs)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "it is attached; detach it first");
	if (!rc)
		rc = start_export(attacher, ref, false, file.text, err);
	if (rc)
		return rc;
	*ret_fd = open(file.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (*ret_fd < 0)
		rc = cairn_err_sys(err, errno, "open '%s'", file.text);
	(void)umount2(file.text, MNT_DETACH);
	return rc;
}

/* ---- users elsewhere ----------------------------------------------------------- */

/* A client that is not there now may come at any time, so nothing rules a writer out. */
static int rbd_attacher_users(struct attacher *base, struct store_ref ref,
			      struct attacher_users *ret, struct cairn_err *err)
{
	char client[RBD_CLIENT_MAX];
	int rc;

	if (ref.kind == STORE_SNAPSHOT)
		return 0;
	rc = rbd_clients_find(attacher_of(base)->spec.cluster, ref.id, client, err);
	if (!rc)
		ret->writer = client[0] ? OPENED : OPENED_UNKNOWN;
	return rc;
}

/* A snapshot that is attached on another node has no client that writes, but its export holds
 * a lock. */
static int refuse_exported(struct rbd_attacher *attacher, struct store_ref ref,
			   struct cairn_err *err)
{
	bool held = false;
	int rc = rbd_locks_is_held(attacher->spec.cluster, rbd_export_slot(ref.id), &held, err);

	if (!rc && held)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the snapshot '%s' is attached on another node", ref.id);
	return rc;
}

/* Removing a snapshot has the image open too, also in this process, but not for long. */
static int rbd_attacher_refuse_used(struct attacher *base, struct store_ref ref,
				    struct cairn_err *err)
{
	return ref.kind == STORE_SNAPSHOT
		       ? refuse_exported(attacher_of(base), ref, err)
		       : rbd_clients_await_none(attacher_of(base)->spec.cluster, ref.id, err);
}

static const struct attacher_ops rbd_attacher_ops = {
	.name = "Ceph",
	.close = rbd_attacher_close,
	.list = rbd_attacher_list,
	.find = rbd_attacher_find,
	.lock = rbd_attacher_lock,
	.attach = rbd_attacher_attach,
	.detach = rbd_attacher_detach,
	.open_data = rbd_attacher_open_data,
	.kind = rbd_attacher_kind,
	.users = rbd_attacher_users,
	.refuse_used = rbd_attacher_refuse_used,
};

int rbd_attacher_open(const struct rbd_attacher_spec *spec, struct attacher **ret,
		      struct cairn_err *err)
{
	struct rbd_attacher *attacher = cairn_calloc(1, sizeof(*attacher));
	const char *run = getenv("CAIRN_RUN_DIR");

	if (!attacher)
		return cairn_err_nomem(err, "pool");
	if (spec->address[0] && rbd_address_parse(spec->address, &attacher->parsed, err) != 0) {
		free(attacher);
		return CAIRN_INVALID;
	}
	attacher->base.ops = &rbd_attacher_ops;
	attacher->spec = *spec;
	attacher->address = cairn_strdup(spec->address);
	if (!attacher->address) {
		free(attacher);
		return cairn_err_nomem(err, "pool");
	}
	snprintf(attacher->dir, sizeof(attacher->dir), "%.1000s/rbd/%.64s",
		 run && run[0] == '/' ? run : RUN_DIR, spec->pool_id);
	*ret = &attacher->base;
	return 0;
}
