/* SPDX-License-Identifier: Apache-2.0 */

/* The log of a Job's container as the API server returns it: lines with a
 * timestamp each. After a reconnect from a given second on, the first lines are
 * already known. Several lines may have the same time, because some runtimes stamp
 * everything that they read at once. No I/O here.
 */
#ifndef CAIRN_BACKUP_CLUSTER_LOG_H
#define CAIRN_BACKUP_CLUSTER_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define CLUSTER_LOG_LINE_MAX (1U << 20) /* longer ones are cut; a description contains objects */
#define CLUSTER_LOG_TEXT_MAX 320U       /* of a remark or an error */
#define CLUSTER_LOG_STEPS    8U
#define CLUSTER_LOG_STEP_MAX 32U

enum cluster_log_kind {
	CLUSTER_LOG_PROGRESS,
	CLUSTER_LOG_REMARK,
	CLUSTER_LOG_RESULT, /* kept in the log's `result` */
	CLUSTER_LOG_ERROR,  /* kept in the log's `error` */
};

struct cluster_log_event {
	enum cluster_log_kind kind;
	const char *step; /* valid as long as the log; one pointer per name */
	uint64_t done, total;
	const char *text; /* printable; valid during the call */
};

struct cluster_log {
	uint64_t last_ns;                     /* time of the last line taken */
	uint64_t at_last;                     /* number of lines taken with exactly that time */
	json_t *result;                       /* the last object that is not an event, or a
					       * summary */
	int code;                             /* of the error, negative; 0 when there was none */
	char error[CLUSTER_LOG_TEXT_MAX];     /* "" */
	char last_text[CLUSTER_LOG_TEXT_MAX]; /* the last line that is not JSON; "" */
	char steps[CLUSTER_LOG_STEPS][CLUSTER_LOG_STEP_MAX];
	void (*tell)(void *arg, const struct cluster_log_event *event); /* or NULL */
	void *arg;
};

/* Parses more of the log; the last line may be incomplete. */
void backup_cluster_log_take(struct cluster_log *log, const char *text, size_t n);

/* Another container writes: none of its lines is known. */
void backup_cluster_log_restart(struct cluster_log *log);

/* Also a cleanup function. */
void backup_cluster_log_done(struct cluster_log *log);

#endif
