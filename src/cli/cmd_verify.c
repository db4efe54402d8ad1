/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/cmd_verify.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "pool/pool.h"
#include "pool/pool_verify.h"

static const char *fault_text(const struct pool_verify_fault *fault)
{
	return fault->not_zero ? "reported zero, is not" : "differs, not reported";
}

static void verify_print_text(const struct pool_verify_result *result)
{
	char compared[CAIRN_SIZE_TEXT_MAX];
	char holes[CAIRN_SIZE_TEXT_MAX];
	char reported[CAIRN_SIZE_TEXT_MAX];
	char zero[CAIRN_SIZE_TEXT_MAX];

	for (size_t i = 0; i < result->n_faults; i++)
		cmd_outf("offset %" PRIu64 ", %" PRIu64 " bytes: %s\n", result->faults[i].offset,
			 result->faults[i].length, fault_text(&result->faults[i]));
	if (cmd_options.quiet)
		return;
	cmd_out_fact("compared", "%s outside the delta",
		     cairn_format_size(result->compared_bytes, compared));
	cmd_out_fact("holes", "%s on both sides", cairn_format_size(result->hole_bytes, holes));
	cmd_out_fact("delta", "%s, %s of it reported as zero",
		     cairn_format_size(result->reported_bytes, reported),
		     cairn_format_size(result->zero_bytes, zero));
	if (result->fault_bytes == 0)
		cmd_out_text("nothing outside the delta differs\n");
}

static int verify_print_json(const struct pool_verify_result *result, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_bool(&json, "ok", result->fault_bytes == 0);
	cmd_json_field_u64(&json, "volume_capacity_bytes", result->capacity);
	cmd_json_field_u64(&json, "reported_bytes", result->reported_bytes);
	cmd_json_field_u64(&json, "compared_bytes", result->compared_bytes);
	cmd_json_field_u64(&json, "zero_bytes", result->zero_bytes);
	cmd_json_field_u64(&json, "hole_bytes", result->hole_bytes);
	cmd_json_field_u64(&json, "fault_bytes", result->fault_bytes);
	cairn_json_key(&json, "faults");
	cairn_json_array_begin(&json);
	for (size_t i = 0; i < result->n_faults; i++) {
		cairn_json_object_begin(&json);
		cmd_json_field_u64(&json, "byte_offset", result->faults[i].offset);
		cmd_json_field_u64(&json, "size_bytes", result->faults[i].length);
		cmd_json_field_string(&json, "kind",
				      result->faults[i].not_zero ? "not_zero" : "not_reported");
		cairn_json_object_end(&json);
	}
	cairn_json_array_end(&json);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static int verify_pool(const char *base, const char *target, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_verify_result result = {0};
	struct cmd_progress progress;
	int rc = cmd_pool_open(CMD_QUERY, &pool, err);

	if (rc)
		return rc;
	cmd_progress_begin(&progress, "verifying");
	rc = pool_verify(pool, base, target, &progress.hooks, &result, err);
	cmd_progress_end(&progress);
	if (!rc && cmd_options.output == CMD_OUTPUT_TABLE)
		verify_print_text(&result);
	else if (!rc)
		rc = verify_print_json(&result, err);
	if (!rc && result.fault_bytes > 0)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "%" PRIu64
				   " bytes differ from what the delta reports, first at offset "
				   "%" PRIu64,
				   result.fault_bytes, result.faults[0].offset);
	return rc;
}

int cmd_verify_run(struct cairn_err *err)
{
	if (cmd_verify.source_device)
		return cmd_program_exec(cmd_verify_command.program, err);
	return verify_pool(cmd_verify.base, cmd_verify.target, err);
}
