/* SPDX-License-Identifier: Apache-2.0 */

/* Where the API server is and who we are to it.
 *
 * A kubeconfig file, several of them merged, or what a pod finds in its file
 * system. A `struct kube_config` says where credentials are; files with tokens
 * and certificates are read again while a client lives, so a rotated one is
 * taken up without a restart.
 *
 * A config belongs to one thread until a client is made of it, which takes what
 * it needs; it is never changed after it was loaded.
 */
#ifndef CAIRN_KUBE_CONFIG_H
#define CAIRN_KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_config;

/* A kubeconfig file; a large fleet's is some hundred KiB. */
#define KUBE_CONFIG_FILE_MAX (4U << 20)

/* Files that KUBECONFIG may list. */
#define KUBE_CONFIG_FILES_MAX 64

struct kube_config_options {
	const char *kubeconfig; /* a file; NULL or "" searches, see below */
	const char *context;    /* NULL or "" is the file's current one */
	const char *cluster;    /* these two override the context's */
	const char *user;

	/* Searching finds nothing: pods look here. NULL is the usual directory. */
	const char *pod_dir;
};

/* Finds the configuration as kubectl does: the file that is named; else the
 * files that the variable KUBECONFIG lists, merged, the first to say something
 * winning; else ~/.kube/config if it is there; else that of the pod.
 *
 * CAIRN_NOT_FOUND      no file, or no context, cluster or user of that name
 * CAIRN_PRECONDITION   nothing is configured and this is no pod
 * CAIRN_INVALID        a file is not what it should be; the text says where
 * CAIRN_UNIMPLEMENTED  an auth-provider, which Kubernetes dropped in favour of exec
 * CAIRN_NO_SPACE       out of memory
 */
int kube_config_load(const struct kube_config_options *options, struct kube_config **ret,
		     struct cairn_err *err);

/* Only the pod's. */
int kube_config_in_cluster(const char *pod_dir, struct kube_config **ret, struct cairn_err *err);

/* From text, as a file at `path` would give; for tests and for fuzzing. */
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
