/* SPDX-License-Identifier: Apache-2.0 */

/* Actions on items: what Velero calls for every item of a kind in a backup, in a restore and
 * in the deletion of a backup.
 *
 * An action gets the item as a tree, may change it, and names other items that belong to it.
 * Actions keep nothing between calls: Velero starts a new process for nearly every call.
 */
#ifndef CAIRN_VELERO_ACTION_H
#define CAIRN_VELERO_ACTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "kube/kube_client.h"
#include "velero/world.h"

struct cairn_err;

struct velero_request {
	struct velero_world *world;
	json_t *item;           /* may be changed */
	const json_t *original; /* of a restore: the item as it is in the backup; else NULL */
	const json_t *owner;    /* the Backup or Restore */
	struct kube_call how;   /* ends with the call from Velero */
};

#define VELERO_RELATED_MAX 4
#define VELERO_NAME_MAX    254

/* Another item that Velero is to back up or restore before this one. */
struct velero_related {
	const struct kube_resource *resource;
	char ns[VELERO_NAME_MAX]; /* "" for a kind without namespaces */
	char name[VELERO_NAME_MAX];
};

struct velero_outcome {
	bool changed; /* the request's item; else Velero gets its own bytes back */
	bool skip;    /* a restore leaves the item out */
	struct velero_related related[VELERO_RELATED_MAX];
	size_t n_related;
};

/* `ns` may be NULL.
 *
 * CAIRN_INVALID  the name is empty or too long for Kubernetes
 */
int velero_outcome_relate(struct velero_outcome *outcome, const struct kube_resource *resource,
			  const char *ns, const char *name, struct cairn_err *err);

enum velero_kind {
	VELERO_BACKUP,
	VELERO_RESTORE,
	VELERO_DELETE,
	VELERO_BLOCK, /* names items that belong together, and executes nothing */
};

struct velero_action {
	enum velero_kind kind;
	const char *name;     /* as Velero knows it */
	const char *resource; /* "persistentvolumeclaims", "plural.group" */
	const char *selector; /* of labels; NULL: all */
	int (*execute)(struct velero_request *request, struct velero_outcome *ret,
		       struct cairn_err *err);
};

extern const struct velero_action velero_actions[];
extern const size_t velero_actions_n;

/* NULL when there is none of that kind and name. */
const struct velero_action *velero_action_find(enum velero_kind kind, const char *name);

int velero_claim_backup(struct velero_request *request, struct velero_outcome *ret,
			struct cairn_err *err);
int velero_snapshot_backup(struct velero_request *request, struct velero_outcome *ret,
			   struct cairn_err *err);
int velero_content_backup(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err);
int velero_claim_restore(struct velero_request *request, struct velero_outcome *ret,
			 struct cairn_err *err);
int velero_snapshot_restore(struct velero_request *request, struct velero_outcome *ret,
			    struct cairn_err *err);
int velero_content_restore(struct velero_request *request, struct velero_outcome *ret,
			   struct cairn_err *err);
int velero_volume_restore(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err);
int velero_upload_delete(struct velero_request *request, struct velero_outcome *ret,
			 struct cairn_err *err);
int velero_content_delete(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err);

#endif
