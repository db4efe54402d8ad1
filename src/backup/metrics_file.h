/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics for node_exporter's textfile collector.
 *
 * A file holds the last attempt and the last success of each volume. A failure is written
 * too and keeps the last success, so an alert can use its age, and a file that is no longer
 * written ages by itself. Volumes of earlier runs that are not in this one stay in the file.
 *
 * The file is replaced atomically and is world-readable, because the collector runs as
 * another user.
 */
#ifndef CAIRN_BACKUP_METRICS_FILE_H
#define CAIRN_BACKUP_METRICS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define METRICS_BACKUP "cairn_backup"
#define METRICS_FORGET "cairn_backup_forget"
#define METRICS_VERIFY "cairn_backup_verify"

/* Result for one volume, or for a task without a volume. */
struct metrics_sample {
	const char *volume; /* NULL: the metrics have no label */
	bool ok;
	double seconds;
	/* Of a backup. */
	uint64_t size_bytes;
	uint64_t read_bytes;
	uint64_t stored_bytes;
};

/* How samples go into a file. */
struct metrics_how {
	const char *family; /* one of the names above */
	bool others_failed; /* volumes in the file without a sample have failed as well */
	bool drop_others;   /* volumes in the file without a sample are removed */
};

int backup_metrics_file_write(const char *path, const struct metrics_how *how,
			      const struct metrics_sample *samples, size_t n,
			      struct cairn_err *err);

#endif
