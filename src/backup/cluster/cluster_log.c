/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_log.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "kube/timestamp.h"

/* Copies only characters that are safe on a terminal. */
static void cluster_log_copy_text(char out[CLUSTER_LOG_TEXT_MAX], const char *text, size_t n)
{
	size_t len = 0;

	while (len < n && len < CLUSTER_LOG_TEXT_MAX - 4) {
		uint32_t c;
		size_t step = cairn_utf8_next(text + len, n - len, &c);

		if (step == 0 || len + step > CLUSTER_LOG_TEXT_MAX - 4)
			break;
		memcpy(out + len, text + len, step);
		if (!cairn_text_printable(text + len, step))
			memset(out + len, '?', step);
		len += step;
	}
	out[len] = '\0';
}

/* One pointer per name, so that a change of step can be detected by comparing
 * pointers. */
static const char *cluster_log_intern(struct cluster_log *log, const char *step)
{
	char(*at)[CLUSTER_LOG_STEP_MAX] = log->steps;
	size_t i = 0;

	if (strlen(step) >= CLUSTER_LOG_STEP_MAX || !cairn_text_printable(step, strlen(step)))
		return "working";
	while (i < CLUSTER_LOG_STEPS && at[i][0] && strcmp(at[i], step) != 0)
		i++;
	if (i == CLUSTER_LOG_STEPS)
		return "working";
	if (!at[i][0])
		snprintf(at[i], CLUSTER_LOG_STEP_MAX, "%s", step);
	return at[i];
}

static void cluster_log_tell(struct cluster_log *log, const struct cluster_log_event *event)
{
	if (log->tell)
		log->tell(log->arg, event);
}

static uint64_t cluster_log_number(const json_t *object, const char *key)
{
	int64_t value = 0;

	return kube_i64(object, &value, key) && value > 0 ? (uint64_t)value : 0;
}

/* {"error": "NOT_FOUND", "message": …}: the code by its name. */
static int cluster_log_code_of(const char *name)
{
	for (int code = CAIRN_CANCELLED; code >= CAIRN_UNAUTHENTICATED; code--)
		if (strcmp(cairn_code_name(code), name) == 0)
			return code;
	return CAIRN_UNKNOWN;
}

static void take_error(struct cluster_log *log, const json_t *object, const char *name)
{
	const char *message = kube_str(object, "message");
	struct cluster_log_event event = {.kind = CLUSTER_LOG_ERROR, .text = log->error};

	log->code = cluster_log_code_of(name);
	cluster_log_copy_text(log->error, message ? message : name,
			      strlen(message ? message : name));
	cluster_log_tell(log, &event);
}

static void take_result(struct cluster_log *log, json_t *object)
{
	struct cluster_log_event event = {.kind = CLUSTER_LOG_RESULT};

	json_decref(log->result);
	log->result = json_incref(object);
	cluster_log_tell(log, &event);
}

static void take_object(struct cluster_log *log, json_t *object)
{
	const char *event = kube_str(object, "event");
	const char *error = kube_str(object, "error");
	const char *text = kube_str(object, "text");
	const char *step = kube_str(object, "step");
	char shown[CLUSTER_LOG_TEXT_MAX];

	if (!event && error) {
		take_error(log, object, error);
	} else if (!event || strcmp(event, "summary") == 0) {
		take_result(log, object);
	} else if (strcmp(event, "progress") == 0 && step) {
		cluster_log_tell(log, &(struct cluster_log_event){
					      .kind = CLUSTER_LOG_PROGRESS,
					      .step = cluster_log_intern(log, step),
					      .done = cluster_log_number(object, "bytes_done"),
					      .total = cluster_log_number(object, "bytes_total")});
	} else if (strcmp(event, "remark") == 0 && text) {
		cluster_log_copy_text(shown, text, strlen(text));
		cluster_log_tell(log, &(struct cluster_log_event){.kind = CLUSTER_LOG_REMARK,
								  .text = shown});
	}
}

/* True if the line was not processed by an earlier read. *seen counts the lines with the
 * last timestamp in the current read. */
static bool is_new(struct cluster_log *log, uint64_t at, uint64_t *seen)
{
	if (at < log->last_ns)
		return false;
	if (at > log->last_ns) {
		log->last_ns = at;
		log->at_last = *seen = 0;
	}
	if (++*seen <= log->at_last)
		return false;
	log->at_last = *seen;
	return true;
}

static void cluster_log_take_line(struct cluster_log *log, const char *line, size_t n,
				  uint64_t *seen)
{
	const char *space = memchr(line, ' ', n);
	kube_auto_json json_t *object = NULL;
	char time[KUBE_TIME_MAX + 8];
	uint64_t at;

	if (!space || (size_t)(space - line) >= sizeof(time))
		return;
	memcpy(time, line, (size_t)(space - line));
	time[space - line] = '\0';
	if (!kube_time_parse(time, &at) || !is_new(log, at, seen))
		return;
	n -= (size_t)(space + 1 - line);
	line = space + 1;
	if (n == 0 || n > CLUSTER_LOG_LINE_MAX)
		return;
	if (line[0] == '{' && kube_json_parse(line, n, &object, NULL) == 0 &&
	    json_is_object(object))
		take_object(log, object);
	else
		cluster_log_copy_text(log->last_text, line, n);
}

void backup_cluster_log_take(struct cluster_log *log, const char *text, size_t n)
{
	const char *end = text + n;
	uint64_t seen = 0;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));

		if (!newline)
			newline = end;
		cluster_log_take_line(log, text, (size_t)(newline - text), &seen);
		text = newline + 1;
	}
}

void backup_cluster_log_restart(struct cluster_log *log)
{
	log->last_ns = 0;
	log->at_last = 0;
	log->code = 0;
	log->error[0] = '\0';
	log->last_text[0] = '\0';
	json_decref(log->result);
	log->result = NULL;
}

void backup_cluster_log_done(struct cluster_log *log)
{
	backup_cluster_log_restart(log);
}
