/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics for node_exporter's textfile collector.
 *
 * A file holds what is known of the last attempt and of the last success of each volume. A
 * failure is written too, and leaves what the last success was: so an alert can go by its
 * age, and a file that nobody writes any more becomes old by itself. Volumes of earlier runs
 * that are not in this one stay in the file.
 *
 * The file is replaced, never changed; readable by everybody, as the collector is another
 * user.
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

/* What came of one volume, or of a task that is of none. */
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
	bool others_failed; /* volumes in the file that have no sample failed as well */
	bool drop_others;   /* they are gone */
};

int metrics_file_write(const char *path, const struct metrics_how *how,
		       const struct metrics_sample *samples, size_t n, struct cairn_err *err);

#endif
