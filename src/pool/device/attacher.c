/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/attacher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/device/loop_device.h"

struct file_attacher {
	struct attacher base;
	struct store *store;
};

static int attacher_path(struct attacher *base, struct store_ref ref, char **ret,
			 struct cairn_err *err)
{
	return pool_store_path(((struct file_attacher *)base)->store, ref, ret, err);
}

static void file_attacher_close(struct attacher *attacher)
{
	free(attacher);
}

static int file_attacher_list(struct attacher *attacher, struct store_ref ref,
			      struct device_list *ret, struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	return rc ? rc : pool_device_list_get(path, ret, err);
}

static int file_attacher_find(struct attacher *attacher, struct store_ref ref,
			      char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	return rc ? rc : pool_device_find(path, ret_device, err);
}

static int file_attacher_users(struct attacher *attacher, struct store_ref ref,
			       struct attacher_users *ret, struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	if (rc)
		return rc;
	ret->writer = pool_open_files_for_writing(path);
	ret->reader = ref.kind == STORE_SNAPSHOT && pool_open_files_has_reader(path);
	return 0;
}

static int file_attacher_lock(struct attacher *attacher, struct store_ref ref, int *ret_fd,
			      struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	return rc ? rc : pool_loop_lock(path, ret_fd, err);
}

static int file_attacher_attach(struct attacher *attacher, struct store_ref ref, bool read_only,
				uint64_t size, char ret_device[DEVICE_PATH_MAX],
				struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	return rc ? rc : pool_device_attach_locked(path, read_only, size, ret_device, err);
}

static int file_attacher_detach(struct attacher *attacher, struct store_ref ref,
				struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	return rc ? rc : pool_device_detach_locked(path, err);
}

static int file_attacher_open_data(struct attacher *attacher, struct store_ref ref, int *ret_fd,
				   struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	int rc = attacher_path(attacher, ref, &path, err);

	if (rc)
		return rc;
	*ret_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return *ret_fd < 0 ? cairn_err_sys(err, errno, "open '%s'", path) : 0;
}

/* A rollback in progress when the file was opened may have replaced it since: data written to
 * an unlinked file is lost. */
static int file_attacher_check_data(struct attacher *attacher, struct store_ref ref, int fd,
				    struct cairn_err *err)
{
	cairn_auto_free char *path = NULL;
	struct stat held, named;
	int rc = attacher_path(attacher, ref, &path, err);

	if (rc)
		return rc;
	if (fstat(fd, &held) < 0 || lstat(path, &named) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", path);
	if (held.st_ino != named.st_ino || held.st_dev != named.st_dev)
		return cairn_err_set(err, CAIRN_ABORTED, "the volume was rolled back meanwhile");
	return 0;
}

static const struct attacher_ops file_attacher_ops = {
	.name = "loop",
	.close = file_attacher_close,
	.list = file_attacher_list,
	.find = file_attacher_find,
	.users = file_attacher_users,
	.lock = file_attacher_lock,
	.attach = file_attacher_attach,
	.detach = file_attacher_detach,
	.open_data = file_attacher_open_data,
	.check_data = file_attacher_check_data,
};

int pool_attacher_open_files(struct store *store, struct attacher **ret, struct cairn_err *err)
{
	struct file_attacher *attacher = cairn_calloc(1, sizeof(*attacher));

	if (!attacher)
		return cairn_err_nomem(err, "devices");
	*attacher = (struct file_attacher){.base.ops = &file_attacher_ops, .store = store};
	*ret = &attacher->base;
	return 0;
}

void pool_attacher_close(struct attacher *attacher)
{
	if (attacher)
		attacher->ops->close(attacher);
}

int pool_attacher_list(struct attacher *attacher, struct store_ref ref, struct device_list *ret,
		       struct cairn_err *err)
{
	*ret = (struct device_list){0};
	return attacher->ops->list ? attacher->ops->list(attacher, ref, ret, err) : 0;
}

int pool_attacher_find(struct attacher *attacher, struct store_ref ref,
		       char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	ret_device[0] = '\0';
	return attacher->ops->find ? attacher->ops->find(attacher, ref, ret_device, err) : 0;
}

int pool_attacher_users(struct attacher *attacher, struct store_ref ref, struct attacher_users *ret,
			struct cairn_err *err)
{
	*ret = (struct attacher_users){.writer = OPENED_NOT};
	return attacher->ops->users ? attacher->ops->users(attacher, ref, ret, err) : 0;
}

int pool_attacher_lock(struct attacher *attacher, struct store_ref ref, int *ret_fd,
		       struct cairn_err *err)
{
	*ret_fd = -1;
	return attacher->ops->lock ? attacher->ops->lock(attacher, ref, ret_fd, err) : 0;
}

int pool_attacher_attach(struct attacher *attacher, struct store_ref ref, bool read_only,
			 uint64_t size, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	if (!attacher->ops->attach)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "a pool on %s cannot attach block devices",
				     attacher->ops->name);
	return attacher->ops->attach(attacher, ref, read_only, size, ret_device, err);
}

int pool_attacher_detach(struct attacher *attacher, struct store_ref ref, struct cairn_err *err)
{
	return attacher->ops->detach ? attacher->ops->detach(attacher, ref, err) : 0;
}

int pool_attacher_open_data(struct attacher *attacher, struct store_ref ref, int *ret_fd,
			    struct cairn_err *err)
{
	return attacher->ops->open_data(attacher, ref, ret_fd, err);
}

int pool_attacher_check_data(struct attacher *attacher, struct store_ref ref, int fd,
			     struct cairn_err *err)
{
	return attacher->ops->check_data ? attacher->ops->check_data(attacher, ref, fd, err) : 0;
}

const char *pool_attacher_kind(struct attacher *attacher, const char *device)
{
	return attacher->ops->kind ? attacher->ops->kind(attacher, device) : "loop";
}

int pool_attacher_refuse_attached(struct attacher *attacher, struct store_ref ref, const char *what,
				  struct cairn_err *err)
{
	char device[DEVICE_PATH_MAX];
	int rc = pool_attacher_find(attacher, ref, device, err);

	if (!rc && device[0])
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "%s is attached as %s; detach it first", what, device);
	if (!rc && attacher->ops->refuse_used)
		rc = attacher->ops->refuse_used(attacher, ref, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}
