/* SPDX-License-Identifier: Apache-2.0 */

#include "client/handle.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/strings.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"

/* Longest token lifetime that Kubernetes accepts. */
#define EXPIRY_MAX (1ULL << 32)

/* The first version of the struct ends here. */
#define OPTIONS_LEAST \
	(offsetof(struct cairn_client_options, token_expiry_seconds) + sizeof(uint64_t))

static const size_t strings[CLIENT_OPTION_STRINGS] = {
	offsetof(struct cairn_client_options, kubeconfig),
	offsetof(struct cairn_client_options, context),
	offsetof(struct cairn_client_options, address),
	offsetof(struct cairn_client_options, ca_file),
	offsetof(struct cairn_client_options, ca_pem),
	offsetof(struct cairn_client_options, server_name),
	offsetof(struct cairn_client_options, audience),
	offsetof(struct cairn_client_options, driver),
	offsetof(struct cairn_client_options, token_file),
	offsetof(struct cairn_client_options, token),
	offsetof(struct cairn_client_options, service_account),
	offsetof(struct cairn_client_options, service_account_namespace),
};

static int client_check(const struct cairn_client_options *o, struct cairn_err *err)
{
	if (!o->service_account != !o->service_account_namespace)
		return cairn_err_set(err, CAIRN_INVALID,
				     "a service account needs its namespace, and the other way");
	if (o->token_expiry_seconds > EXPIRY_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the token's life is too long");
	return 0;
}

/* Kubernetes is not needed if address and token are given, unless its configuration is
 * given too. */
static bool needs_kubernetes(const struct cairn_client_options *o)
{
	return o->kubeconfig || o->context || !o->address ||
	       !(o->token || o->token_file || o->token_fn);
}

static int client_reach_kubernetes(struct cairn_client *client, struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_options where = {
		.kubeconfig = client->options.kubeconfig,
		.context = client->options.context,
	};
	struct kube_client_options options = {.user_agent = "cairn-client"};
	int rc;

	if (!needs_kubernetes(&client->options))
		return 0;
	rc = kube_config_load(&where, &config, err);
	return rc ? rc : kube_client_new(config, &options, &client->kube, err);
}

static int client_make(const struct cairn_client_options *options, struct cairn_client **ret,
		       struct cairn_err *err)
{
	struct cairn_client *client = cairn_calloc(1, sizeof(*client));
	int rc;

	if (!client)
		return cairn_err_nomem(err, "client");
	client_links_init(&client->links);
	rc = client_struct_copy(&client->options, sizeof(client->options), OPTIONS_LEAST, options,
				err);
	if (!rc)
		rc = client_strings_copy(&client->options, strings, CLIENT_OPTION_STRINGS,
					 client->owned, err);
	if (!rc)
		rc = client_check(&client->options, err);
	if (!rc)
		rc = client_reach_kubernetes(client, err);
	client_tokens_init(&client->tokens, &client->options, client->kube);
	if (rc) {
		cairn_client_free(client);
		return rc;
	}
	*ret = client;
	return 0;
}

int cairn_client_new(const struct cairn_client_options *options, struct cairn_client **ret,
		     struct cairn_client_error *error)
{
	struct cairn_err err = {0};

	return client_error_set(error, client_make(options, ret, &err), &err);
}

void cairn_client_free(struct cairn_client *client)
{
	if (!client)
		return;
	client_links_done(&client->links);
	client_tokens_done(&client->tokens);
	kube_client_free(client->kube);
	client_strings_done(client->owned, CLIENT_OPTION_STRINGS);
	free(client);
}

const char *cairn_client_version(void)
{
	return CAIRN_VERSION;
}
