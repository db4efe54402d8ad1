/* SPDX-License-Identifier: Apache-2.0 */

/* Flags of the commands that ask a SnapshotMetadata service: those of the tools
 * that Kubernetes' own project has, and more. They write to the structs of the
 * library, so a command's table begins with CLIENT_FLAGS of its own two. */
#ifndef CAIRN_CLI_CLIENT_FLAGS_H
#define CAIRN_CLI_CLIENT_FLAGS_H

#include <stdint.h>

#include <cairn/client.h>

#include "base/flags.h"

struct cairn_err;

/* What the flags have in another form than the library. */
struct client_flags {
	struct cairn_client_options options;
	struct cairn_listing_query query;
	uint64_t max_results;
	uint64_t token_expiry_ms;
};

#define CLIENT_FLAGS_INIT                                            \
	{                                                            \
		.options.size = sizeof(struct cairn_client_options), \
		.query.size = sizeof(struct cairn_listing_query),    \
	}

/* clang-format off */
#define CLIENT_FLAG_TEXT(flag, key, field, value, text) \
	{.name = (flag), .letter = (key), .kind = CAIRN_FLAG_STRING, .target = &(field), \
	 .value_name = (value), .help = (text)}

/* Which blocks. */
#define CLIENT_QUERY_FLAGS(f) \
	CLIENT_FLAG_TEXT("namespace", 'n', (f).query.namespace_name, "NAME", \
			 "namespace of the VolumeSnapshots (required)"), \
	CLIENT_FLAG_TEXT("snapshot", 's', (f).query.snapshot, "NAME", \
			 "VolumeSnapshot to list (required)"), \
	CLIENT_FLAG_TEXT("previous-snapshot", 'p', (f).query.base_snapshot, "NAME", \
			 "list what changed since this VolumeSnapshot"), \
	CLIENT_FLAG_TEXT("previous-snapshot-id", 'P', (f).query.base_id, "ID", \
			 "the same by its CSI handle; it may be deleted"), \
	{.name = "starting-offset", .kind = CAIRN_FLAG_SIZE, .target = &(f).query.starting_offset, \
	 .value_name = "OFFSET", .help = "list from this byte on (default: 0)"}, \
	{.name = "max-results", .kind = CAIRN_FLAG_U64, .target = &(f).max_results, \
	 .value_name = "N", .help = "blocks a message at most (default: 0, the driver chooses)"}, \
	{.name = "patience", .kind = CAIRN_FLAG_DURATION, .target = &(f).query.patience_ms, \
	 .value_name = "TIME", .help = "give up after this time without progress (default: 2m)"}, \
	{.name = "no-retry", .kind = CAIRN_FLAG_BOOL, .target = &(f).query.no_retry, \
	 .help = "end when a stream breaks"}

/* Whom to ask. */
#define CLIENT_SERVICE_FLAGS(f) \
	CLIENT_FLAG_TEXT("kubeconfig", 0, (f).options.kubeconfig, "FILE", \
			 "(default: $KUBECONFIG, ~/.kube/config, the pod's own)"), \
	CLIENT_FLAG_TEXT("context", 0, (f).options.context, "NAME", \
			 "context of the kubeconfig (default: its current one)"), \
	CLIENT_FLAG_TEXT("service-account", 0, (f).options.service_account, "NAME", \
			 "whose token to ask for (default: our own account)"), \
	CLIENT_FLAG_TEXT("service-account-namespace", 0, (f).options.service_account_namespace, \
			 "NAME", "its namespace"), \
	{.name = "token-expiry", .kind = CAIRN_FLAG_DURATION, .target = &(f).token_expiry_ms, \
	 .value_name = "TIME", .help = "life of the token (default: 600, in seconds)"}, \
	CLIENT_FLAG_TEXT("driver", 0, (f).options.driver, "NAME", \
			 "CSI driver (default: the snapshot's)"), \
	CLIENT_FLAG_TEXT("address", 0, (f).options.address, "HOST:PORT", \
			 "of the service (default: from its object)"), \
	CLIENT_FLAG_TEXT("server-name", 0, (f).options.server_name, "NAME", \
			 "in its certificate (default: the host in its object)"), \
	CLIENT_FLAG_TEXT("ca-file", 0, (f).options.ca_file, "FILE", \
			 "authorities for it (default: from its object)"), \
	CLIENT_FLAG_TEXT("audience", 0, (f).options.audience, "TEXT", \
			 "of the token (default: from its object)"), \
	CLIENT_FLAG_TEXT("token-file", 0, (f).options.token_file, "FILE", \
			 "token to show; read again for every stream")
/* clang-format on */

/* Moves what the flags have in another form, and looks for what is required.
 * Usage errors. */
int cmd_client_flags_finish(struct client_flags *flags, struct cairn_err *err);

/* For query.on_retry: says on standard error why the listing pauses. The
 * argument is a struct cmd_progress. */
void cmd_client_flags_told_retry(void *progress, const struct cairn_client_error *why,
				 uint64_t wait_ms);

#endif
