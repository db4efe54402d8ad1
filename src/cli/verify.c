/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/verify.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/verify_devices.h"
#include "pool/pool.h"

static struct client_flags asked = CLIENT_FLAGS_INIT;
static const char *source_device;
static const char *target_device;

/* clang-format off */
static const struct cairn_flag flags[] = {
	CLIENT_FLAG_TEXT("source-device-path", 0, source_device, "DEV",
			 "the snapshot's data; copied from"),
	CLIENT_FLAG_TEXT("target-device-path", 0, target_device, "DEV",
			 "copied to; must be empty, or hold the base"),
	/* As external-snapshot-metadata's verifier also calls them. */
	{.name = "src", .kind = CAIRN_FLAG_STRING, .target = &source_device, .value_name = "DEV",
	 .help = "the same as --source-device-path", .hidden = true},
	{.name = "tgt", .kind = CAIRN_FLAG_STRING, .target = &target_device, .value_name = "DEV",
	 .help = "the same as --target-device-path", .hidden = true},
	CLIENT_QUERY_FLAGS(asked),
	CLIENT_SERVICE_FLAGS(asked),
	CAIRN_FLAG_END,
};
/* clang-format on */

static const char *fault_text(const struct pool_verify_fault *fault)
{
	return fault->not_zero ? "reported zero, is not" : "differs, not reported";
}

static void print_text(const struct pool_verify_result *result)
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
	cmd_out_fact("delta", "%s, %s of it told as zero",
		     cairn_format_size(result->reported_bytes, reported),
		     cairn_format_size(result->zero_bytes, zero));
	if (result->fault_bytes == 0)
		cmd_out_text("nothing outside the delta differs\n");
}

static int print_json(const struct pool_verify_result *result, struct cairn_err *err)
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
		print_text(&result);
	else if (!rc)
		rc = print_json(&result, err);
	if (!rc && result.fault_bytes > 0)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS,
				   "%" PRIu64 " bytes are not as the delta says, first at offset "
				   "%" PRIu64,
				   result.fault_bytes, result.faults[0].offset);
	return rc;
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	if ((source_device || target_device) && argc > 0)
		return cmd_usage(err, "'%s': devices are verified without BASE and TARGET",
				 argv[0]);
	if (source_device || target_device)
		return cmd_verify_devices(&asked, source_device, target_device, err);
	if (argc < 2)
		return cmd_usage(err, "%s is missing; see 'cairn verify --help'",
				 argc ? "TARGET" : "BASE");
	return verify_pool(argv[0], argv[1], err);
}

const struct command cmd_verify = {
	.name = "verify",
	.summary = "prove that nothing outside a delta differs",
	.about =
		"Reads the data of both snapshots wherever 'cairn delta BASE TARGET' reports\n"
		"nothing, and what it reports as zero. Ends with status 15 when something is not\n"
		"as the delta says.\n"
		"\n"
		"With --source-device-path instead of snapshots: copies the blocks that 'cairn list'\n"
		"lists from one device to the other, then compares the two from end to end, as the Go\n"
		"program snapshot-metadata-verifier does, whose options it takes, with one dash too.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "BASE", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			{.name = "TARGET", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			CMD_ARG_END},
	.flags = flags,
	.go_flags = true,
	.has_output = true,
	.run = run,
};
