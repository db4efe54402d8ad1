/* SPDX-License-Identifier: Apache-2.0 */

/* The string maps of a request.
 *
 * Parameters of a StorageClass: "pool" chooses the pool. Mutable parameters of a
 * VolumeAttributesClass: "retention" (30d) and "granularity" (64K) of the change sets.
 * Keys under csi.storage.k8s.io/ belong to the sidecars and are ignored.
 */
#ifndef CAIRN_CSI_PARAMETERS_H
#define CAIRN_CSI_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

/* One entry of any of the generated map types: they have the same form. */
struct csi_entry {
	const char *key;
	const char *value;
};

#define CSI_ENTRIES_MAX 64U /* limits the work that a map can cause */

/* Copies borrowed pointers out of a generated map, sorted by key.
 *
 * CAIRN_INVALID  more than CSI_ENTRIES_MAX
 */
#define csi_entries(map, n, out, err) csi_entries_copy((void *const *)(map), (n), (out), (err))
int csi_entries_copy(void *const *map, size_t n, struct csi_entry out[CSI_ENTRIES_MAX],
		     struct cairn_err *err);

/* CAIRN_INVALID for an unknown key. *ret_pool is borrowed, or NULL. */
int csi_parameters_parse(const struct csi_entry *entries, size_t n, const char **ret_pool,
			 struct cairn_err *err);
/* For calls without parameters of ours: CAIRN_INVALID for any key but the sidecars'. */
#define csi_no_parameters(map, n, err) csi_no_entries((void *const *)(map), (n), (err))
int csi_no_entries(void *const *map, size_t n, struct cairn_err *err);

/* CAIRN_INVALID for an unknown key or an invalid value. */
int csi_mutable_parse(const struct csi_entry *entries, size_t n, struct pool_volume_settings *ret,
		      struct cairn_err *err);

/* Over all entries that are not the sidecars'. */
uint64_t csi_entries_checksum(const struct csi_entry *entries, size_t n);

#endif
