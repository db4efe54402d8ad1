/* SPDX-License-Identifier: Apache-2.0 */

/* Progress and cancellation of long operations. */
#ifndef CAIRN_BACKUP_PROGRESS_H
#define CAIRN_BACKUP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Both may be NULL. Called from any thread of the work, one at a time. */
struct backup_progress {
	void (*report)(void *arg, const char *step, uint64_t done, uint64_t total);
	bool (*cancelled)(void *arg);
	void *arg;
};

static inline void backup_report(const struct backup_progress *progress, const char *step,
				 uint64_t done, uint64_t total)
{
	if (progress && progress->report)
		progress->report(progress->arg, step, done, total);
}

static inline bool backup_cancelled(const struct backup_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

#endif
