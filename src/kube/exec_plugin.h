/* SPDX-License-Identifier: Apache-2.0 */

/* Credentials from a program that the kubeconfig names
 * (client.authentication.k8s.io/v1 and v1beta1). */
#ifndef CAIRN_KUBE_EXEC_PLUGIN_H
#define CAIRN_KUBE_EXEC_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct kube_config;
struct kube_deadline;

#define KUBE_EXEC_ARGUMENTS_MAX 256
#define KUBE_EXEC_OUTPUT_MAX    (1U << 20)

/* The plugin's answer, owned by the caller; fields it did not set are NULL. */
struct kube_exec_answer {
	char *token;
	char *cert; /* with `key`, PEM */
	char *key;
	uint64_t expires_ns; /* since 1970; UINT64_MAX if it set none */
};

/* Runs config->exec. It inherits our standard error, and our standard input too if that is
 * a terminal and interactiveMode permits it. It is killed at the deadline of `patience`.
 *
 * CAIRN_UNAUTHENTICATED  it failed or returned no credentials
 * CAIRN_INVALID          the settings are wrong
 */
int kube_exec_run(const struct kube_config *config, const struct kube_deadline *patience,
		  struct kube_exec_answer *ret, struct cairn_err *err);

/* Parses the output of a plugin, an ExecCredential of `api_version`. */
int kube_exec_parse(const char *text, size_t n, const char *api_version,
		    struct kube_exec_answer *ret, struct cairn_err *err);

void kube_exec_answer_done(struct kube_exec_answer *answer);

#endif
