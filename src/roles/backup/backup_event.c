/* SPDX-License-Identifier: Apache-2.0 */

/* What the commands of `cairn backup` print for programs: one JSON object a line. */

#include "roles/backup/backup_common.h"

#include <unistd.h>

#include "base/json.h"
#include "cli/options.h"
#include "cli/output_record.h"

bool role_json(void)
{
	return cmd_options.output != CMD_OUTPUT_TABLE;
}

void role_event_begin(struct cairn_json *json, const char *event)
{
	cairn_json_init(json, STDOUT_FILENO, false);
	cairn_json_object_begin(json);
	cmd_json_field_string(json, "event", event);
}

int role_event_end(struct cairn_json *json, struct cairn_err *err)
{
	cairn_json_object_end(json);
	cairn_json_newline(json);
	return cairn_json_finish(json, err);
}

void role_report_event(const struct role_report *report)
{
	struct cairn_json json;

	role_event_begin(&json, "report");
	cmd_json_field_u64(&json, "backups", report->made);
	cmd_json_field_u64(&json, "failed", report->failed);
	if (report->skips)
		cmd_json_field_u64(&json, "skipped", report->skipped);
	cmd_json_field_u64(&json, "bytes_read", report->bytes_read);
	cmd_json_field_u64(&json, "bytes_stored", report->bytes_stored);
	cmd_json_field_u64(&json, "elapsed_ms", report->elapsed_ms);
	(void)role_event_end(&json, NULL);
}
