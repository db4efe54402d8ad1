/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/client_flags.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"

int cmd_client_flags_finish(struct client_flags *flags, struct cairn_err *err)
{
	const struct cairn_client_options *o = &flags->options;

	if (!flags->query.namespace_name)
		return cmd_usage(err, "--namespace is required");
	if (!flags->query.snapshot)
		return cmd_usage(err, "--snapshot is required");
	if (!o->service_account != !o->service_account_namespace)
		return cmd_usage(err,
				 "--service-account and --service-account-namespace go together");
	if (flags->max_results > INT32_MAX)
		return cmd_usage(err, "--max-results: at most %" PRId32, INT32_MAX);
	flags->query.max_results = (uint32_t)flags->max_results;
	flags->options.token_expiry_seconds = flags->token_expiry_ms / 1000;
	return 0;
}

void cmd_client_flags_told_retry(void *progress, const struct cairn_client_error *why,
				 uint64_t wait_ms)
{
	cmd_progress_clear(progress);
	cmd_note("%s: %s; trying again in %" PRIu64 ".%" PRIu64 " s", cairn_code_name(why->code),
		 why->message, wait_ms / 1000, wait_ms % 1000 / 100);
}
