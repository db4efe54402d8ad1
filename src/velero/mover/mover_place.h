/* SPDX-License-Identifier: Apache-2.0 */

/* The repository of a namespace at a BackupStorageLocation, and how a Job opens it. Pure.
 *
 * It lies in Velero's directory restic/, because Velero refuses a location whose bucket has
 * a directory that it does not know. Secrets are named, never read.
 */
#ifndef CAIRN_VELERO_MOVER_PLACE_H
#define CAIRN_VELERO_MOVER_PLACE_H

#include <jansson.h>
#include <stdbool.h>

#include "backup/cluster/cluster_objects.h"
#include "velero/location.h"

struct cairn_err;

/* Of Velero's own repositories. */
#define MOVER_PASSWORD_SECRET "velero-repo-credentials"
#define MOVER_PASSWORD_KEY    "repository-password"
/* Of a location that names none. */
#define MOVER_CREDENTIAL_SECRET "cloud-credentials"
#define MOVER_CREDENTIAL_KEY    "cloud"

#define MOVER_VARIABLES 6
#define MOVER_FILES     3

struct mover_place {
	struct velero_place at;
	char *repository;          /* "s3:http://…/restic/NAMESPACE" */
	char *credentials_path;    /* in the container */
	char key[CLUSTER_KEY_MAX]; /* of the repository, for labels */
	bool read_only;
	struct cluster_variable variables[MOVER_VARIABLES]; /* borrow from here */
	struct cluster_secret_file files[MOVER_FILES];
};

/* Also a cleanup function. */
void mover_place_done(struct mover_place *place);

/* `location` is the BackupStorageLocation, `ns` the namespace whose claims are kept there. Codes
 * of velero_place_read(). */
int mover_place_of(const json_t *location, const char *ns, struct mover_place *ret,
		   struct cairn_err *err);

#endif
