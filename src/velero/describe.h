/* SPDX-License-Identifier: Apache-2.0 */

/* One picture of a backup: what Velero, its plugins and the data mover say of it, from the
 * cluster, from the object store, or both. */
#ifndef CAIRN_VELERO_DESCRIBE_H
#define CAIRN_VELERO_DESCRIBE_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_client;
struct repo_store;

struct velero_describe {
	const char *name;
	const char *ns;             /* Velero's */
	struct kube_client *client; /* NULL: no cluster */
	struct repo_store *store;   /* NULL: that of the Backup, if it can be read */
	bool details;
};

/* {name, phase, started, completed, errors, warnings, location, items{total, done},
 *  csi_snapshots[{namespace, claim, snapshot, content, handle, driver, size, ready}],
 *  volumes[{volume, phase, snapshot, total, done, message, started, completed}],
 *  uploads[{namespace, claim, phase, mover, total, done, message}],
 *  restore_order[{first, second, matters}], notes[text]}
 * Sizes are bytes, or null if they are unknown. *ret is the caller's.
 *
 * CAIRN_NOT_FOUND  there is no such backup
 */
int velero_describe(const struct velero_describe *what, json_t **ret, struct cairn_err *err);

#endif
