/* SPDX-License-Identifier: Apache-2.0 */

/* The functions of librados and librbd that a pool on Ceph calls, found when the first
 * such pool is opened: no other user of the program loads these libraries or needs them.
 *
 * The members have the names and types of the C API, so a call reads
 * `api->rbd_open(…)`. The libraries stay loaded until the process ends.
 */
#ifndef CAIRN_POOL_RBD_API_H
#define CAIRN_POOL_RBD_API_H

#include <rados/librados.h>
#include <rbd/librbd.h>

struct cairn_err;

#define RBD_API_RADOS(X)                        \
	X(rados_create)                         \
	X(rados_conf_read_file)                 \
	X(rados_conf_parse_env)                 \
	X(rados_conf_set)                       \
	X(rados_conf_get)                       \
	X(rados_connect)                        \
	X(rados_shutdown)                       \
	X(rados_cluster_stat)                   \
	X(rados_getaddrs)                       \
	X(rados_blocklist_add)                  \
	X(rados_wait_for_latest_osdmap)         \
	X(rados_buffer_free)                    \
	X(rados_ioctx_create)                   \
	X(rados_ioctx_destroy)                  \
	X(rados_ioctx_set_namespace)            \
	X(rados_set_pool_full_try)              \
	X(rados_application_enable)             \
	X(rados_stat)                           \
	X(rados_read)                           \
	X(rados_write)                          \
	X(rados_write_full)                     \
	X(rados_remove)                         \
	X(rados_watch3)                         \
	X(rados_unwatch2)                       \
	X(rados_notify2)                        \
	X(rados_notify_ack)                     \
	X(rados_create_write_op)                \
	X(rados_release_write_op)               \
	X(rados_write_op_assert_exists)         \
	X(rados_write_op_create)                \
	X(rados_write_op_write_full)            \
	X(rados_write_op_omap_cmp2)             \
	X(rados_write_op_omap_set2)             \
	X(rados_write_op_omap_rm_keys2)         \
	X(rados_write_op_operate)               \
	X(rados_create_read_op)                 \
	X(rados_release_read_op)                \
	X(rados_read_op_assert_version)         \
	X(rados_read_op_omap_get_vals2)         \
	X(rados_read_op_omap_get_vals_by_keys2) \
	X(rados_read_op_operate)                \
	X(rados_aio_create_completion2)         \
	X(rados_aio_read_op_operate)            \
	X(rados_aio_wait_for_complete)          \
	X(rados_aio_get_return_value)           \
	X(rados_aio_get_version)                \
	X(rados_aio_release)                    \
	X(rados_omap_get_next2)                 \
	X(rados_omap_get_end)                   \
	X(rados_nobjects_list_open)             \
	X(rados_nobjects_list_next)             \
	X(rados_nobjects_list_close)

#define RBD_API_RBD(X)                   \
	X(rbd_image_options_create)      \
	X(rbd_image_options_destroy)     \
	X(rbd_image_options_set_uint64)  \
	X(rbd_create4)                   \
	X(rbd_clone3)                    \
	X(rbd_remove)                    \
	X(rbd_rename)                    \
	X(rbd_namespace_create)          \
	X(rbd_namespace_exists)          \
	X(rbd_list2)                     \
	X(rbd_image_spec_list_cleanup)   \
	X(rbd_open)                      \
	X(rbd_open_read_only)            \
	X(rbd_close)                     \
	X(rbd_get_size)                  \
	X(rbd_resize)                    \
	X(rbd_get_parent)                \
	X(rbd_linked_image_spec_cleanup) \
	X(rbd_snap_spec_cleanup)         \
	X(rbd_watchers_list)             \
	X(rbd_watchers_list_cleanup)     \
	X(rbd_snap_create)               \
	X(rbd_snap_remove)               \
	X(rbd_snap_rename)               \
	X(rbd_snap_set)                  \
	X(rbd_snap_list)                 \
	X(rbd_snap_list_end)             \
	X(rbd_snap_get_id)               \
	X(rbd_snap_get_namespace_type)   \
	X(rbd_diff_iterate2)             \
	X(rbd_read2)                     \
	X(rbd_write2)                    \
	X(rbd_write_zeroes)              \
	X(rbd_flush)                     \
	X(rbd_get_features)              \
	X(rbd_update_features)           \
	X(rbd_rebuild_object_map)        \
	X(rbd_aio_create_completion)     \
	X(rbd_aio_get_return_value)      \
	X(rbd_aio_release)               \
	X(rbd_aio_wait_for_complete)     \
	X(rbd_aio_read2)                 \
	X(rbd_aio_write2)                \
	X(rbd_aio_write_zeroes)          \
	X(rbd_aio_flush)                 \
	X(rbd_lock_acquire)              \
	X(rbd_lock_release)              \
	X(rbd_lock_get_owners)           \
	X(rbd_lock_get_owners_cleanup)   \
	X(rbd_lock_break)                \
	X(rbd_quiesce_watch)             \
	X(rbd_quiesce_complete)          \
	X(rbd_quiesce_unwatch)

struct rbd_api {
#define RBD_API_MEMBER(name) __typeof__(name) *name;
	RBD_API_RADOS(RBD_API_MEMBER)
	RBD_API_RBD(RBD_API_MEMBER)
#undef RBD_API_MEMBER
};

/* Loads the libraries once; the table is valid until the process ends.
 *
 * CAIRN_UNIMPLEMENTED  a library is not installed, or lacks a function
 */
int rbd_api_load(const struct rbd_api **ret, struct cairn_err *err);

/* Fills `err` from the negative return value of a call; EBUSY is CAIRN_ABORTED and
 * the codes of a lost or fenced connection are CAIRN_UNAVAILABLE. */
__attribute__((format(printf, 3, 4))) int rbd_api_err(struct cairn_err *err, int rc,
						      const char *fmt, ...);

#endif
