/* SPDX-License-Identifier: Apache-2.0 */

/* The current identity of a client.
 *
 * Files are read again if the last read was KUBE_CREDENTIALS_FILE_MS ago, because the
 * kubelet rotates tokens in place. If a file cannot be read then, the previous contents
 * stay in use. A plugin's answer is kept until it expires or the server rejects it.
 * Thread-safe; one thread fetches and the others wait for it.
 */
#ifndef CAIRN_KUBE_CREDENTIALS_H
#define CAIRN_KUBE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_config;
struct kube_credentials;
struct kube_identity;
struct kube_deadline;

#define KUBE_CREDENTIALS_FILE_MS 10000

/* Limit of a token or certificate chain from a file or a plugin. */
#define KUBE_CREDENTIALS_MAX (1U << 20)

/* `config` is borrowed. */
int kube_credentials_new(const struct kube_config *config, struct kube_credentials **ret,
			 struct cairn_err *err);
void kube_credentials_free(struct kube_credentials *credentials);

/* The caller unrefs the identity.
 *
 * CAIRN_NOT_FOUND, CAIRN_INVALID  a file is missing or malformed
 * CAIRN_UNAUTHENTICATED           the plugin failed; the text says how
 * or the codes of kube_deadline_check()
 */
int kube_credentials_get(struct kube_credentials *credentials, const struct kube_deadline *patience,
			 struct kube_identity **ret, struct cairn_err *err);

/* The server rejected the identity: the next kube_credentials_get() fetches a new one.
 * Returns false if a new fetch cannot change anything. */
bool kube_credentials_refused(struct kube_credentials *credentials,
			      const struct kube_identity *identity);

#endif
