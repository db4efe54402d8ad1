/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/verify_devices.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/num.h"
#include "cli/cmd_verify.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "roles/client/listing_run.h"

static void verify_devices_print_text(const struct client_copy_result *result)
{
	char listed[CAIRN_SIZE_TEXT_MAX];
	char compared[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];

	if (cmd_options.quiet)
		return;
	cmd_out_fact("listed", "%s in %s", cairn_format_size(result->listed_bytes, listed),
		     cmd_count_text(result->listed_blocks, "block", count));
	cmd_out_fact("compared", "%s", cairn_format_size(result->compared_bytes, compared));
	if (result->differing_bytes == 0)
		cmd_out_text("source and target are equal\n");
}

static int verify_devices_print_json(const struct client_copy_result *result, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_bool(&json, "ok", result->differing_bytes == 0);
	cmd_json_field_u64(&json, "volume_capacity_bytes", result->capacity);
	cmd_json_field_u64(&json, "listed_blocks", result->listed_blocks);
	cmd_json_field_u64(&json, "listed_bytes", result->listed_bytes);
	cmd_json_field_u64(&json, "copied_bytes", result->copied_bytes);
	cmd_json_field_u64(&json, "compared_bytes", result->compared_bytes);
	cmd_json_field_u64(&json, "differing_bytes", result->differing_bytes);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

/* Copying and comparing show one progress line after the other. */
static int copy_devices(struct cmd_verify *verify, struct client_copy_result *ret,
			struct cairn_err *err)
{
	struct cmd_progress copying, comparing;
	struct client_copy_options options = {
		.options = &verify->service.options,
		.query = &verify->service.query,
		.source = verify->source_device,
		.target = verify->target_device,
		.copying = &copying.hooks,
		.comparing = &comparing.hooks,
	};
	int rc;

	cmd_progress_begin(&comparing, "comparing");
	cmd_progress_begin(&copying, "copying");
	verify->service.query.on_retry = cmd_client_flags_told_retry;
	verify->service.query.on_retry_arg = &copying;
	rc = client_copy_run(&options, ret, err);
	cmd_progress_end(&copying);
	cmd_progress_end(&comparing);
	return rc;
}

int client_verify_run(struct cairn_err *err)
{
	struct client_copy_result result;
	int rc = copy_devices(&cmd_verify, &result, err);

	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		verify_devices_print_text(&result);
	else
		rc = verify_devices_print_json(&result, err);
	if (!rc && result.differing_bytes > 0)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "source and target differ in %" PRIu64
				   " bytes, first at offset %" PRIu64,
				   result.differing_bytes, result.first_difference);
	return rc;
}
