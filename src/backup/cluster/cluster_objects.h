/* SPDX-License-Identifier: Apache-2.0 */

/* Builds the Kubernetes objects of a backup or a restore, and interprets those
 * of the server. Pure: trees in, trees out.
 *
 * All of one run have one name and the same labels. The Job is created first
 * and owns the other objects. It has a deadline and a time to live, so the
 * cluster removes all of them eventually, even if the process that created them
 * was killed.
 */
#ifndef CAIRN_BACKUP_CLUSTER_OBJECTS_H
#define CAIRN_BACKUP_CLUSTER_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct kube_resource;

#define CLUSTER_LABEL_ROLE        "cairn.csi.dev/backup"
#define CLUSTER_LABEL_CLAIM       "cairn.csi.dev/claim"
#define CLUSTER_LABEL_RUN         "cairn.csi.dev/run"
#define CLUSTER_LABEL_REPOSITORY  "cairn.csi.dev/repository"
#define CLUSTER_ANNOTATION_OF     "cairn.csi.dev/claim-name"
#define CLUSTER_ANNOTATION_STORED "cairn.csi.dev/objects"
#define CLUSTER_ANNOTATION_CA     "cairn.csi.dev/certificates"
#define CLUSTER_MODE_CHANGE       "snapshot.storage.kubernetes.io/allow-volume-mode-change"

/* Values of CLUSTER_LABEL_ROLE. */
#define CLUSTER_ROLE_CREATE  "create"
#define CLUSTER_ROLE_RESTORE "restore"
#define CLUSTER_ROLE_BASE    "base" /* a snapshot that is the base of the next backup */

/* In the Job's container. */
#define CLUSTER_DEVICE       "/dev/cairn"
#define CLUSTER_REPOSITORY   "/repository"
#define CLUSTER_OBJECTS_FILE "/cairn/objects/objects.json"
#define CLUSTER_CA_DIR       "/cairn/ca"

/* The Job's user and group, and the group that owns disks on Linux distributions. */
#define CLUSTER_USER       65532
#define CLUSTER_DISK_GROUP 6

/* Limit of the objects kept with a backup; an annotation may have 256 KiB. */
#define CLUSTER_OBJECTS_MAX (128U << 10)

#define CLUSTER_KEY_MAX  17
#define CLUSTER_NAME_MAX 64
#define CLUSTER_RUN_MAX  9

/* A short key of a text for labels, which are limited to 63 characters. */
int backup_cluster_key(const char *text, char out[CLUSTER_KEY_MAX], struct cairn_err *err);

/* Common to all objects of a run. */
struct cluster_names {
	const char *ns;
	const char *claim; /* that is backed up or restored to */
	const char *role;
	char key[CLUSTER_KEY_MAX];        /* of the claim */
	char repository[CLUSTER_KEY_MAX]; /* of the repository as it was named */
	char run[CLUSTER_RUN_MAX];
	char name[CLUSTER_NAME_MAX];
};

/* `repository` is any text that distinguishes repositories. */
int backup_cluster_names_make(const char *ns, const char *claim, const char *role,
			      const char *repository, uint64_t now_ns, struct cluster_names *ret,
			      struct cairn_err *err);

/* "label=value,…" that selects the objects that runs of that role left for the
 * claim. */
int backup_cluster_selector(const struct cluster_names *names, const char *role, char *out,
			    size_t size, struct cairn_err *err);

/* An object with the labels of the run; `owner` may be NULL. *ret is owned by the
 * caller. */
int backup_cluster_object_new(const struct kube_resource *resource,
			      const struct cluster_names *names, const char *name,
			      const json_t *owner, json_t **ret, struct cairn_err *err);

/* A key of a secret as the file DIRECTORY/KEY of the container. */
struct cluster_secret_file {
	const char *secret; /* NULL ends a list */
	const char *key;
	const char *directory; /* a different one for each */
};

/* A variable of the container's environment. */
struct cluster_variable {
	const char *name; /* NULL ends a list */
	const char *value;
};

struct cluster_job_spec {
	const struct cluster_names *names;
	const char *suffix; /* of the name; NULL: none */
	const char *image;
	const char *service_account;             /* NULL: the namespace's default */
	bool asks_kubernetes;                    /* mount the account's token */
	const char *secret;                      /* its keys become variables; or NULL */
	const char *ca_key;                      /* of the secret: certificates to trust; or NULL */
	const char *ca;                          /* certificates to trust, PEM; or NULL */
	const struct cluster_secret_file *files; /* or NULL */
	const struct cluster_variable *variables; /* or NULL */
	const char *repository;                   /* location, or NULL: the secret says it */
	const char *repository_claim;             /* holds the repository; or NULL */
	const char *const *args;                  /* of cairn, NULL-terminated */
	const char *device_claim;                 /* Block mode; or NULL */
	const char *mount_claim;                  /* Filesystem mode, only mounted; or NULL */
	const json_t *node_affinity;              /* of the pod; or NULL */
	const char *objects;                      /* JSON for CLUSTER_OBJECTS_FILE; or NULL */
	uint64_t deadline_s;
	uint64_t keep_s;     /* after its end */
	const json_t *owner; /* or NULL */
	const json_t *patch; /* applied last; or NULL */
};

/* In all of these *ret is owned by the caller.
 *
 * CAIRN_INVALID   the patch is not an object, or it changes the name
 * CAIRN_NO_SPACE  out of memory
 */
int backup_cluster_job(const struct cluster_job_spec *spec, json_t **ret, struct cairn_err *err);

/* Of the claim `of`; `snapshot_class` may not be NULL. */
int backup_cluster_snapshot(const struct cluster_names *names, const char *of,
			    const char *snapshot_class, const json_t *owner, json_t **ret,
			    struct cairn_err *err);

struct cluster_claim_spec {
	const struct cluster_names *names;
	const char *name; /* NULL: the run's */
	const char *storage_class;
	const char *mode;           /* "Block", "Filesystem" */
	const char *size;           /* a quantity */
	const json_t *access_modes; /* NULL: ReadWriteOnce */
	const char *snapshot;       /* that it is made from; or NULL */
	const json_t *owner;
};

int backup_cluster_claim(const struct cluster_claim_spec *spec, json_t **ret,
			 struct cairn_err *err);

/* A copy without parts that are specific to this cluster and time: ids,
 * versions, owners, field managers, annotations of controllers, most of the
 * status. The object must not be a Secret. NULL when memory is short. */
json_t *backup_cluster_sanitised(const json_t *object);

/* An owner reference that does not block deletion; NULL when memory is short. */
json_t *backup_cluster_owner_of(const json_t *object);

/* Applies the merge patch `patch` (RFC 7386) to `target` in place.
 *
 * CAIRN_INVALID  deeper than CLUSTER_PATCH_DEPTH
 */
#define CLUSTER_PATCH_DEPTH 32
int backup_cluster_merge(json_t *target, const json_t *patch, struct cairn_err *err);

/* Bytes of a quantity ("64Mi", "1073741824", "1.5G"), rounded up; false when it
 * is malformed. */
bool backup_cluster_quantity(const char *text, uint64_t *ret);

/* Picks a class of that driver: the one marked as default, or the only one.
 *
 * CAIRN_NOT_FOUND     no class of that driver
 * CAIRN_PRECONDITION  there are several and none is the default
 */
int backup_cluster_pick_class(const json_t *list, const char *driver, const char **ret,
			      struct cairn_err *err);

#endif
