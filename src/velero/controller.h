/* SPDX-License-Identifier: Apache-2.0 */

/* A controller beside a Velero server, as `cairn manager --velero` runs it.
 *
 * Each controller is one file that defines a `const struct velero_controller`, and a line in
 * the table of controllers/controllers.c. All share `struct velero_common`. Only the leader
 * works; controllers keep no state that a restart must not lose.
 */
#ifndef CAIRN_VELERO_CONTROLLER_H
#define CAIRN_VELERO_CONTROLLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_informer;
struct kube_recorder;
struct repo_store;

/* What the controllers share; borrowed, and outlives them. */
struct velero_common {
	struct kube_client *client;
	struct kube_recorder *recorder; /* of Events */
	const char *ns;                 /* Velero's namespace */
	const char *directories;        /* see velero/location.h; or NULL */
	const char *image;              /* of Jobs; or NULL */
	const char *job_account;        /* of Jobs that move data; or NULL */
	const json_t *job_patch;        /* merge patch of every Job; or NULL */
	uint64_t per_node;              /* volumes that are moved at a time on one node */
	uint64_t period_ms;             /* between looks at what has no event of its own */
	struct kube_informer *backups;  /* all Backups of the namespace */
};

struct velero_controller {
	const char *name;
	/* *ret is passed to the others. Handlers of common->backups are added here. */
	int (*start)(const struct velero_common *common, void **ret, struct cairn_err *err);
	/* Sets whether this process leads; from any thread. */
	void (*lead)(void *controller, bool leads);
	/* Ends all work; idempotent. The controller stays valid for lead(). */
	void (*stop)(void *controller);
	void (*free)(void *controller);
	bool (*is_ready)(void *controller); /* may be NULL */
};

/* Opens the store of the BackupStorageLocation of that name. */
int velero_common_store(const struct velero_common *common, const char *location,
			const struct kube_call *how, struct repo_store **ret,
			struct cairn_err *err);

struct velero_controllers;

/* Starts all of them. `common` is copied; its field `backups` is set here. */
int velero_controllers_new(const struct velero_common *common, struct velero_controllers **ret,
			   struct cairn_err *err);
void velero_controllers_lead(struct velero_controllers *controllers, bool leads);
void velero_controllers_stop(struct velero_controllers *controllers);
bool velero_controllers_are_ready(struct velero_controllers *controllers);

/* Stops and frees. Accepts NULL. */
void velero_controllers_free(struct velero_controllers *controllers);
CAIRN_DEFINE_CLEANUP(struct velero_controllers, velero_controllers_free);

#endif
