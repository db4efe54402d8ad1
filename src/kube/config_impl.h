/* SPDX-License-Identifier: Apache-2.0 */

/* The contents of a configuration, for the code that turns it into credentials. */
#ifndef CAIRN_KUBE_CONFIG_IMPL_H
#define CAIRN_KUBE_CONFIG_IMPL_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cairn_err;

/* PEM or a token: inline bytes from the configuration, or the file that contains them;
 * both NULL if not configured. */
struct kube_material {
	char *data;
	char *file;
};

struct kube_config {
	atomic_uint refs;

	/* the cluster */
	char *server;
	char *tls_server_name;
	char *proxy;
	bool insecure;
	struct kube_material ca;
	json_t *cluster_extension; /* passed to an exec plugin with the cluster; or NULL */

	/* the user */
	struct kube_material cert;
	struct kube_material key;
	struct kube_material token; /* a file takes precedence over inline text */
	char *username;
	char *password;
	char *as;
	char *as_uid;
	json_t *as_groups; /* or NULL */
	json_t *as_extra;  /* or NULL */
	json_t *exec;      /* the plugin's settings, `command` made absolute if it is a path */

	char *ns;
	bool in_cluster;
};

/* Adds a reference; each one is released with kube_config_free(). */
struct kube_config *kube_config_ref(const struct kube_config *config);

/* Wipes and frees a text; accepts NULL. */
void kube_wipe(char *secret);
CAIRN_DEFINE_CLEANUP(char, kube_wipe);
void kube_wipe_json(json_t *json); /* overwrites all strings in the tree */

/* Fill in cluster and user from the nodes of a kubeconfig; each may be NULL. Relative
 * paths are relative to `dir`. */
int kube_config_set_cluster(struct kube_config *config, const json_t *cluster, const char *dir,
			    struct cairn_err *err);
int kube_config_set_user(struct kube_config *config, const json_t *user, const char *dir,
			 struct cairn_err *err);

/* Copies a text field; leaves *ret NULL if it is absent or empty. */
int kube_config_text(const json_t *node, const char *field, char **ret, struct cairn_err *err);

#endif
