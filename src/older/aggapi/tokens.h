/* SPDX-License-Identifier: Apache-2.0 */

/* Our own tokens for the sidecars of drivers, one for each. The audience contains the
 * driver's name, so that one driver's sidecar cannot use a token at another's.
 *
 * The API server issues them for our service account; they are valid for ten minutes and
 * used for half of that. Thread-safe.
 */
#ifndef CAIRN_AGGAPI_TOKENS_H
#define CAIRN_AGGAPI_TOKENS_H

#include "base/cleanup.h"

struct aggapi_tokens;
struct cairn_err;
struct kube_client;
struct kube_wait;

/* Audience of tokens for a driver's sidecar, both ours and those of users that read data.
 * The name of any object fits. */
#define AGGAPI_AUDIENCE_PREFIX "cbt-http."
#define AGGAPI_AUDIENCE_MAX    320
void aggapi_audience(const char *driver, char out[AGGAPI_AUDIENCE_MAX]);

/* The client is borrowed. */
int aggapi_tokens_new(struct kube_client *client, struct aggapi_tokens **ret,
		      struct cairn_err *err);
void aggapi_tokens_free(struct aggapi_tokens *tokens);
CAIRN_DEFINE_CLEANUP(struct aggapi_tokens, aggapi_tokens_free);

/* Returns a token for the driver's sidecar, "" if we are not a service account; the caller
 * wipes and frees it. */
int aggapi_tokens_get(struct aggapi_tokens *tokens, const char *driver,
		      const struct kube_wait *wait, char **ret, struct cairn_err *err);

#endif
