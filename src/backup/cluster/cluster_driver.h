/* SPDX-License-Identifier: Apache-2.0 */

/* Client of a CSI driver with a local socket. It publishes a volume as a device
 * of this host, as a kubelet would.
 *
 * Published volumes are recorded below a directory of this host, so that the next
 * run can unpublish those of a killed one. Drivers that need volumes attached
 * first, or secrets, require Jobs.
 */
#ifndef CAIRN_BACKUP_CLUSTER_DRIVER_H
#define CAIRN_BACKUP_CLUSTER_DRIVER_H

#include <jansson.h>

#include "base/cleanup.h"

struct cairn_err;
struct cluster_driver;

#define CLUSTER_DRIVER_DIR "/run/cairn-backup"

/* Volumes are published below `dir`.
 *
 * CAIRN_UNAVAILABLE  the driver does not answer
 */
int backup_cluster_driver_open(const char *endpoint, const char *dir, struct cluster_driver **ret,
			       struct cairn_err *err);

/* Unpublishes everything that was published. Accepts NULL. */
void backup_cluster_driver_close(struct cluster_driver *driver);
CAIRN_DEFINE_CLEANUP(struct cluster_driver, backup_cluster_driver_close);

/* Unpublishes volumes of dead runs. */
int backup_cluster_driver_sweep(struct cluster_driver *driver, struct cairn_err *err);

/* Publishes a PersistentVolume in Block mode; *ret_path is borrowed until the
 * next call. `name` is the name of its directory.
 *
 * CAIRN_PRECONDITION   the volume belongs to another driver
 * CAIRN_UNIMPLEMENTED  the volume needs secrets
 */
int backup_cluster_driver_publish(struct cluster_driver *driver, const json_t *volume,
				  const char *name, const char **ret_path, struct cairn_err *err);

int backup_cluster_driver_unpublish(struct cluster_driver *driver, struct cairn_err *err);

#endif
