/* SPDX-License-Identifier: Apache-2.0 */

/* The address of the API server and the credentials for it.
 *
 * The source is a kubeconfig file, several merged kubeconfig files, or the service account
 * files of a pod. A `struct kube_config` records where credentials are stored; token and
 * certificate files are read again during the life of a client, so rotated ones are used
 * without a restart.
 *
 * A config belongs to one thread until a client is made from it. It does not change after
 * it was loaded.
 */
#ifndef CAIRN_KUBE_CONFIG_H
#define CAIRN_KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_config;

/* Limit of a kubeconfig file; that of a large fleet has some hundred KiB. */
#define KUBE_CONFIG_FILE_MAX (4U << 20)

/* Limit of the files in KUBECONFIG. */
#define KUBE_CONFIG_FILES_MAX 64

struct kube_config_options {
	const char *kubeconfig; /* a file; NULL or "" searches as described below */
	const char *context;    /* NULL or "" is the current context of the file */
	const char *cluster;    /* these two override the context's */
	const char *user;

	/* The pod's service account directory, for the fallback. NULL is the usual one. */
	const char *pod_dir;
};

/* Finds the configuration as kubectl does: the given file; else the files listed in
 * KUBECONFIG, merged so that the first file to set a value wins; else ~/.kube/config if it
 * exists; else that of the pod.
 *
 * CAIRN_NOT_FOUND      no file, or no context, cluster or user of that name
 * CAIRN_PRECONDITION   nothing is configured and this is not a pod
 * CAIRN_INVALID        a file is malformed; the text says where
 * CAIRN_UNIMPLEMENTED  an auth-provider, which Kubernetes dropped in favour of exec
 * CAIRN_NO_SPACE       out of memory
 */
int kube_config_load(const struct kube_config_options *options, struct kube_config **ret,
		     struct cairn_err *err);

/* Loads only the pod's configuration. */
int kube_config_in_cluster(const char *pod_dir, struct kube_config **ret, struct cairn_err *err);

/* Parses `text` as if it were read from `path`; for tests and fuzzing. */
int kube_config_parse(const char *text, size_t n, const char *path, const char *context,
		      struct kube_config **ret, struct cairn_err *err);

/* Wipes secrets. Accepts NULL. */
void kube_config_free(struct kube_config *config);
CAIRN_DEFINE_CLEANUP(struct kube_config, kube_config_free);

const char *kube_config_server(const struct kube_config *config);

/* The namespace of the context, of the pod, or "default". */
const char *kube_config_namespace(const struct kube_config *config);
bool kube_config_is_in_cluster(const struct kube_config *config);

#endif
