/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots of a pool as block devices of this host, and who uses them.
 *
 * One `const struct attacher_ops` for each way: loop devices over the store's files
 * (pool_attacher_open_files()), images of a Ceph cluster (pool/rbd). A slot that is NULL is
 * not supported: such an object has no devices and no users on this host. Flushing,
 * freezing and mounts work on the devices themselves and are the same for all
 * (volume_device.h).
 */
#ifndef CAIRN_POOL_ATTACHER_H
#define CAIRN_POOL_ATTACHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/device/open_files.h"
#include "pool/device/volume_device.h"
#include "pool/store/store.h"

struct attacher;
struct cairn_err;

/* Processes that use an object other than through a device of this host. */
struct attacher_users {
	enum opened writer;
	bool reader; /* or one that cannot be ruled out */
};

struct attacher_ops {
	const char *name;

	void (*close)(struct attacher *attacher);

	/* All devices of the object. CAIRN_NOT_FOUND: it has no data. */
	int (*list)(struct attacher *attacher, struct store_ref ref, struct device_list *ret,
		    struct cairn_err *err);
	/* One of them, or "": faster. */
	int (*find)(struct attacher *attacher, struct store_ref ref,
		    char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
	int (*users)(struct attacher *attacher, struct store_ref ref, struct attacher_users *ret,
		     struct cairn_err *err);
	/* CAIRN_PRECONDITION while another host or program uses it, so that it must not be
	 * removed. */
	int (*refuse_used)(struct attacher *attacher, struct store_ref ref, struct cairn_err *err);
	/* Held until the descriptor is closed; excludes attaching and detaching. */
	int (*lock)(struct attacher *attacher, struct store_ref ref, int *ret_fd,
		    struct cairn_err *err);
	/* The first `size` bytes (0: all); an object that has a device keeps it. The
	 * caller holds the lock. Codes of pool_device_attach(). */
	int (*attach)(struct attacher *attacher, struct store_ref ref, bool read_only,
		      uint64_t size, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
	/* All devices of the object. The caller holds the lock. Codes of
	 * pool_device_detach(). */
	int (*detach)(struct attacher *attacher, struct store_ref ref, struct cairn_err *err);
	/* A descriptor to write a volume's bytes with, as to a file. The caller holds the lock,
	 * and the volume has no device. */
	int (*open_data)(struct attacher *attacher, struct store_ref ref, int *ret_fd,
			 struct cairn_err *err);
	/* CAIRN_ABORTED if such a descriptor is no longer the volume's. NULL: while the lock is
	 * held it is. */
	int (*check_data)(struct attacher *attacher, struct store_ref ref, int fd,
			  struct cairn_err *err);
	/* What a device of this object is, in one word. NULL: all are loop devices over
	 * files of the store, and no others. */
	const char *(*kind)(struct attacher *attacher, const char *device);
};

struct attacher {
	const struct attacher_ops *ops;
};

/* Loop devices over the files of a store, which is borrowed. */
int pool_attacher_open_files(struct store *store, struct attacher **ret, struct cairn_err *err);
void pool_attacher_close(struct attacher *attacher);
CAIRN_DEFINE_CLEANUP(struct attacher, pool_attacher_close);

int pool_attacher_list(struct attacher *attacher, struct store_ref ref, struct device_list *ret,
		       struct cairn_err *err);
int pool_attacher_find(struct attacher *attacher, struct store_ref ref,
		       char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
int pool_attacher_users(struct attacher *attacher, struct store_ref ref, struct attacher_users *ret,
			struct cairn_err *err);
/* -1 in *ret_fd where nothing can be attached. */
int pool_attacher_lock(struct attacher *attacher, struct store_ref ref, int *ret_fd,
		       struct cairn_err *err);
/* CAIRN_UNIMPLEMENTED where nothing can be attached. */
int pool_attacher_attach(struct attacher *attacher, struct store_ref ref, bool read_only,
			 uint64_t size, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
int pool_attacher_detach(struct attacher *attacher, struct store_ref ref, struct cairn_err *err);
int pool_attacher_open_data(struct attacher *attacher, struct store_ref ref, int *ret_fd,
			    struct cairn_err *err);
int pool_attacher_check_data(struct attacher *attacher, struct store_ref ref, int fd,
			     struct cairn_err *err);

/* "loop" where there is no choice. */
const char *pool_attacher_kind(struct attacher *attacher, const char *device);

/* CAIRN_PRECONDITION while the object has a device, or is used elsewhere; `what` begins the
 * text. An object without data is not used. */
int pool_attacher_refuse_attached(struct attacher *attacher, struct store_ref ref, const char *what,
				  struct cairn_err *err);

#endif
