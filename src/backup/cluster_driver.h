/* SPDX-License-Identifier: Apache-2.0 */

/* A CSI driver whose socket is at hand, asked to make a volume a device of this
 * host, as a kubelet would ask.
 *
 * What is published is noted below a directory of this host, so that the next run
 * can take back what a killed one left. Drivers that want volumes attached
 * first, or secrets, are for Jobs.
 */
#ifndef CAIRN_BACKUP_CLUSTER_DRIVER_H
#define CAIRN_BACKUP_CLUSTER_DRIVER_H

#include <jansson.h>

#include "base/cleanup.h"

struct cairn_err;
struct cluster_driver;

#define CLUSTER_DRIVER_DIR "/run/cairn-backup"

/* `dir` is where volumes go.
 *
 * CAIRN_UNAVAILABLE  nobody answers there
 */
int cluster_driver_open(const char *endpoint, const char *dir, struct cluster_driver **ret,
			struct cairn_err *err);

/* Takes back what is published. Accepts NULL. */
void cluster_driver_close(struct cluster_driver *driver);
CAIRN_DEFINE_CLEANUP(struct cluster_driver, cluster_driver_close);

/* Takes back what runs left that are no more. */
int cluster_driver_sweep(struct cluster_driver *driver, struct cairn_err *err);

/* Publishes a PersistentVolume in Block mode; *ret_path is the driver's, until
 * the next call. `name` is for its directory.
 *
 * CAIRN_PRECONDITION   it is another driver's
 * CAIRN_UNIMPLEMENTED  it wants secrets
 */
int cluster_driver_publish(struct cluster_driver *driver, const json_t *volume, const char *name,
			   const char **ret_path, struct cairn_err *err);

int cluster_driver_unpublish(struct cluster_driver *driver, struct cairn_err *err);

#endif
