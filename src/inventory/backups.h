/* SPDX-License-Identifier: Apache-2.0 */

/* What a cluster's objects say about backups of claims: schedules (CronJobs that run
 * `cairn backup create --pvc` or `--selector`), runs (Jobs of such a command) and bases (VolumeSnapshots that
 * were kept because the next backup begins at them). The backups themselves are in a
 * repository, which `cairn backup list` reads. */
#ifndef CAIRN_INVENTORY_BACKUPS_H
#define CAIRN_INVENTORY_BACKUPS_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct inventory;

/* Strings are borrowed from the inventory; NULL where unknown. */
struct inventory_backup {
	const char *ns;
	const char *claim; /* of a schedule with --selector: the selector */
	const char *what;  /* "schedule", "run", "base" */
	const char *name;  /* of the object */
	/* Of a schedule: "active", "suspended", "running"; of a run: "running", "complete",
	 * "failed"; of a base: "ready", "not ready". */
	const char *state;
	const char *schedule; /* when, as cron writes it; of a schedule only */
	uint64_t time_ns;     /* last success, begin of the run, cut of the base; 0: none */
};

typedef int inventory_backup_fn(void *arg, const struct inventory_backup *backup,
				struct cairn_err *err);
int inventory_backups(const struct inventory *inventory, inventory_backup_fn *take, void *arg,
		      struct cairn_err *err);

#endif
