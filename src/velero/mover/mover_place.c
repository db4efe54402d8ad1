/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/mover/mover_place.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "velero/moved_backup.h"

#define PASSWORD_DIR    "/cairn/password"
#define CREDENTIALS_DIR "/cairn/credentials"
#define REPOSITORIES    "restic"

void mover_place_done(struct mover_place *place)
{
	velero_place_done(&place->at);
	free(place->repository);
	free(place->credentials_path);
	*place = (struct mover_place){0};
}

/* Text that becomes the name of a secret or a file. */
static bool place_is_name(const char *text)
{
	size_t n =
		strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._");

	return n > 0 && n < 254 && text[n] == '\0' && text[0] != '.';
}

static int place_access(struct mover_place *place, struct cairn_err *err)
{
	const struct velero_place *at = &place->at;
	const char *secret = at->secret ? at->secret : MOVER_CREDENTIAL_SECRET;
	const char *key = at->secret_key ? at->secret_key : MOVER_CREDENTIAL_KEY;

	if (!place_is_name(secret) || !place_is_name(key))
		return cairn_err_set(err, CAIRN_INVALID, "spec.credential is malformed");
	place->credentials_path = cairn_printf("%s/%s", CREDENTIALS_DIR, key);
	if (!place->credentials_path)
		return cairn_err_nomem(err, "location");
	place->files[0] = (struct cluster_secret_file){.secret = MOVER_PASSWORD_SECRET,
						       .key = MOVER_PASSWORD_KEY,
						       .directory = PASSWORD_DIR};
	place->files[1] = (struct cluster_secret_file){
		.secret = secret, .key = key, .directory = CREDENTIALS_DIR};
	place->variables[0] = (struct cluster_variable){"RESTIC_PASSWORD_FILE",
							PASSWORD_DIR "/" MOVER_PASSWORD_KEY};
	place->variables[1] =
		(struct cluster_variable){"AWS_SHARED_CREDENTIALS_FILE", place->credentials_path};
	place->variables[2] = (struct cluster_variable){"AWS_REGION", at->region};
	place->variables[3] = (struct cluster_variable){"AWS_PROFILE", at->profile};
	place->variables[4] =
		(struct cluster_variable){"CAIRN_S3_STYLE", at->path_style ? "path" : NULL};
	return 0;
}

int mover_place_of(const json_t *location, const char *ns, struct mover_place *ret,
		   struct cairn_err *err)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	const char *mode = kube_str(location, "spec", "accessMode");
	int rc = velero_place_read(location, NULL, &place.at, err);

	if (rc)
		return rc;
	if (!velero_is_namespace(ns))
		return cairn_err_set(err, CAIRN_INVALID, "the namespace is malformed");
	place.read_only = mode && strcmp(mode, "ReadOnly") == 0;
	place.repository = cairn_printf("%s/" REPOSITORIES "/%s", place.at.location, ns);
	if (!place.repository)
		return cairn_err_nomem(err, "location");
	rc = backup_cluster_key(place.repository, place.key, err);
	if (!rc)
		rc = place_access(&place, err);
	if (rc)
		return rc;
	*ret = place;
	place = (struct mover_place){0};
	return 0;
}
