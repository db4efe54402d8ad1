/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "pool/pool.h"

static bool repair;
static bool data;

static const struct cairn_flag pool_check_flags[] = {
	CAIRN_FLAG_SWITCH("repair", repair,
			  "make again what can be; move aside what is in no record"),
	CAIRN_FLAG_SWITCH("data", data, "also read all data of volumes and snapshots"),
	CAIRN_FLAG_END,
};

static const char *pool_check_state_text(enum pool_fault_state state)
{
	switch (state) {
	case POOL_FAULT_FOUND:
		return "found";
	case POOL_FAULT_REPAIRED:
		return "repaired";
	case POOL_FAULT_LOST:
		return "lost";
	}
	return "unknown";
}

static void on_fault(void *arg, enum pool_fault_state state, const char *line)
{
	struct cairn_json *json = arg;

	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		cmd_outf("%-9s %s\n", pool_check_state_text(state), line);
		return;
	}
	cairn_json_object_begin(json);
	cmd_json_field_string(json, "state", pool_check_state_text(state));
	cmd_json_field_string(json, "text", line);
	cairn_json_object_end(json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(json);
}

static void pool_check_print_result(const struct pool_check_result *result,
				    const struct pool_data_result *read)
{
	char bytes[CAIRN_SIZE_TEXT_MAX];
	char volumes[CMD_COUNT_TEXT_MAX];
	char snapshots[CMD_COUNT_TEXT_MAX];
	char sets[CMD_COUNT_TEXT_MAX];

	cmd_outf("checked %s, %s, %s: ", cmd_count_text(result->volumes, "volume", volumes),
		 cmd_count_text(result->snapshots, "snapshot", snapshots),
		 cmd_count_text(result->sets, "change set", sets));
	if (result->found == 0)
		cmd_out_text("no fault\n");
	else
		cmd_outf("%s, %" PRIu64 " repaired, %" PRIu64 " lost\n",
			 cmd_count_text(result->found, "fault", sets), result->repaired,
			 result->lost);
	if (data)
		cmd_outf("%s of data read\n", cairn_format_size(read->bytes, bytes));
	else
		cmd_out_text("data was not read; --data reads it\n");
	if (result->quarantined)
		cmd_outf("%s in quarantine; see: cairn pool quarantine\n",
			 cmd_count_text(result->quarantined, "object", sets));
}

static void json_result(struct cairn_json *json, const struct pool_check_result *result,
			const struct pool_data_result *read)
{
	cmd_json_field_u64(json, "volumes", result->volumes);
	cmd_json_field_u64(json, "snapshots", result->snapshots);
	cmd_json_field_u64(json, "change_sets", result->sets);
	cmd_json_field_u64(json, "found", result->found);
	cmd_json_field_u64(json, "repaired", result->repaired);
	cmd_json_field_u64(json, "lost", result->lost);
	cmd_json_field_u64(json, "quarantined", result->quarantined);
	cmd_json_field_u64(json, "bytes_read", read->bytes);
}

static int pool_check_verdict(const struct pool_check_result *result, struct cairn_err *err)
{
	char count[CMD_COUNT_TEXT_MAX];

	if (result->found <= result->repaired)
		return 0;
	if (!repair)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the pool has %s; 'cairn pool check --repair' repairs what it "
				     "can",
				     cmd_count_text(result->found, "fault", count));
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%" PRIu64 " of %" PRIu64 " faults cannot be repaired; "
			     "do a full backup of the volumes named above",
			     result->found - result->repaired, result->found);
}

static int pool_check_all(struct pool *pool, struct cairn_json *json,
			  struct pool_check_result *result, struct pool_data_result *read,
			  struct cairn_err *err)
{
	struct cmd_progress progress;
	struct pool_check_spec spec = {
		.repair = repair, .fault = on_fault, .arg = json, .progress = &progress.hooks};
	int rc;

	cmd_progress_begin(&progress, "checking");
	rc = pool_check(pool, &spec, result, err);
	if (!rc && data)
		rc = pool_read_data(pool, &spec, read, err);
	result->found += read->faults;
	cmd_progress_end(&progress);
	return rc;
}

static int pool_check_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_check_result result = {0};
	struct pool_data_result read = {0};
	struct cairn_json json;
	bool document = cmd_options.output == CMD_OUTPUT_JSON;
	int rc;

	if (argc > 0)
		cmd_options.pool = argv[0];
	rc = pool_open(&(struct pool_open_spec){.dir = cmd_pool_dir(),
						.read_only = !repair,
						.for_check = true,
						.lock_wait_ms = cmd_options.lock_wait_ms},
		       &pool, err);
	if (rc)
		return rc;
	cmd_json_begin(&json);
	if (document) {
		cairn_json_object_begin(&json);
		cairn_json_key(&json, "faults");
		cairn_json_array_begin(&json);
	}
	rc = pool_check_all(pool, &json, &result, &read, err);
	if (rc)
		return rc;
	if (document) {
		cairn_json_array_end(&json);
		json_result(&json, &result, &read);
		cairn_json_object_end(&json);
		cairn_json_newline(&json);
	} else if (cmd_options.output == CMD_OUTPUT_TABLE && (!cmd_options.quiet || result.found)) {
		pool_check_print_result(&result, &read);
	}
	rc = cairn_json_finish(&json, err);
	return rc ? rc : pool_check_verdict(&result, err);
}

const struct command cmd_pool_check = {
	.name = "check",
	.summary = "verify every checksum and reference of a pool",
	.about = "Checks the records and change sets of a pool, not the data of its volumes:\n"
		 "--data reads that too. Ends with status 15 when a fault remains.\n",
	.args = (const struct cmd_arg[]){{.name = "DIR", .kind = CMD_ARG_DIR, .optional = true},
					 CMD_ARG_END},
	.flags = pool_check_flags,
	.has_output = true,
	.run = pool_check_run,
};
