/* SPDX-License-Identifier: Apache-2.0 */

/* Which VolumeSnapshotClass a snapshot gets, in Velero's order. Pure. */
#ifndef CAIRN_VELERO_SNAPSHOT_CLASS_H
#define CAIRN_VELERO_SNAPSHOT_CLASS_H

#include <jansson.h>

struct cairn_err;

struct velero_class_choice {
	const json_t *class_object; /* borrowed from the list */
	const char *missing;        /* class that an annotation names and that the driver does not
	                               have; borrowed from the annotation; NULL: none */
};

/* `classes` is a list of VolumeSnapshotClasses. The class is that of
 *   1. annotation velero.io/csi-volumesnapshot-class of the claim,
 *   2. annotation velero.io/csi-volumesnapshot-class_DRIVER of the Backup,
 *   3. label velero.io/csi-volumesnapshot-class on a class of the driver,
 *   4. the driver's default class,
 *   5. the driver's only class.
 *
 * CAIRN_NOT_FOUND     the driver has no class
 * CAIRN_PRECONDITION  it has several, and nothing says which one
 */
int velero_class_choose(const json_t *classes, const char *driver, const json_t *claim,
			const json_t *backup, struct velero_class_choice *ret,
			struct cairn_err *err);

#endif
