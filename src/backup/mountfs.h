/* SPDX-License-Identifier: Apache-2.0 */

/* The backups of a repository as a read-only file system.
 *
 *   DIR/0123abcd/volume.img    the volume as it was; can be loop-mounted
 *   DIR/0123abcd/volume.json   its metadata
 *   DIR/data@s1                a link to the newest backup of that snapshot
 *
 * Snapshots of other programs in the repository are not shown.
 */
#ifndef CAIRN_BACKUP_MOUNTFS_H
#define CAIRN_BACKUP_MOUNTFS_H

#include <stdbool.h>

struct cairn_err;
struct repo;

struct mountfs_spec {
	struct repo *repo; /* index loaded */
	const char *dir;
	bool allow_other;
	/* Called once the file system is mounted; may be NULL. */
	void (*ready)(void *arg);
	void *arg;
};

/* Serves until the file system is unmounted or a signal ends it (SIGINT, SIGTERM,
 * SIGHUP); it is unmounted on return.
 *
 * CAIRN_PRECONDITION  it cannot be mounted there
 */
int backup_mountfs_run(const struct mountfs_spec *spec, struct cairn_err *err);

#endif
