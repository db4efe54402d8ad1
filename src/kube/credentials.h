/* SPDX-License-Identifier: Apache-2.0 */

/* The identity to use now.
 *
 * Files are read again when they were last read KUBE_CREDENTIALS_FILE_MS ago,
 * because the kubelet rotates tokens in place; a file that cannot be read then
 * leaves what was good before in use. A plugin's answer is kept until it
 * expires or the server refuses it. Thread-safe; one thread fetches, the others
 * wait for it.
 */
#ifndef CAIRN_KUBE_CREDENTIALS_H
#define CAIRN_KUBE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_config;
struct kube_credentials;
struct kube_identity;
struct kube_patience;

#define KUBE_CREDENTIALS_FILE_MS 10000

/* A token or a certificate chain in a file or from a plugin. */
#define KUBE_CREDENTIALS_MAX (1U << 20)

/* `config` is borrowed. */
int kube_credentials_new(const struct kube_config *config, struct kube_credentials **ret,
			 struct cairn_err *err);
void kube_credentials_free(struct kube_credentials *credentials);

/* The caller unrefs the identity.
 *
 * CAIRN_NOT_FOUND, CAIRN_INVALID  a file is not there or is nothing of use
 * CAIRN_UNAUTHENTICATED           the plugin failed; the text says how
 * or the codes of the patience
 */
int kube_credentials_get(struct kube_credentials *credentials, const struct kube_patience *patience,
			 struct kube_identity **ret, struct cairn_err *err);

/* The server refused it: the next get fetches afresh. False when that cannot
 * change anything. */
bool kube_credentials_refused(struct kube_credentials *credentials,
			      const struct kube_identity *identity);

#endif
