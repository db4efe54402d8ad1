/* SPDX-License-Identifier: Apache-2.0 */

/* A BackupStorageLocation of Velero as a store of objects (repo/repo_objects.h).
 *
 * Provider "aws" is S3 as Velero's plugin for AWS reads it: spec.objectStorage with bucket,
 * prefix and caCert; spec.config with region, s3Url, s3ForcePathStyle and profile. Keys come
 * from the Secret that spec.credential names, in the form of an AWS credentials file; without
 * one from the file in AWS_SHARED_CREDENTIALS_FILE, from AWS_ACCESS_KEY_ID and
 * AWS_SECRET_ACCESS_KEY, or from Secret cloud-credentials, key "cloud", in that order: what
 * `velero install` sets up.
 *
 * Provider "cairn.csi.dev/directory" is for tests: the bucket is a directory below one that
 * the process was started with. Without that it is refused, because a user who may write a
 * BackupStorageLocation could name any directory.
 */
#ifndef CAIRN_VELERO_LOCATION_H
#define CAIRN_VELERO_LOCATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_resource.h"

struct cairn_err;
struct kube_call;
struct kube_client;
struct repo_aws_credentials;
struct repo_store;

#define VELERO_PROVIDER_DIRECTORY "cairn.csi.dev/directory"

extern const struct kube_resource velero_locations;

/* What the object says; the strings are owned, NULL where it says nothing. */
struct velero_place {
	char *location; /* as in struct repo_store_options */
	char *region;
	char *ca_pem;
	char *profile;
	char *secret, *secret_key; /* the credential */
	bool is_s3;
	bool path_style;
};

/* Pure. `directories` may be NULL.
 *
 * CAIRN_INVALID        a field is missing or not understood
 * CAIRN_UNIMPLEMENTED  another provider, or a setting that Cairn does not have
 */
int velero_place_read(const json_t *object, const char *directories, struct velero_place *ret,
		      struct cairn_err *err);
void velero_place_done(struct velero_place *place);

/* Finds the keys as described above; `ns` is Velero's namespace. */
int velero_keys_find(struct kube_client *client, const char *ns, const struct velero_place *place,
		     const struct kube_call *how, struct repo_aws_credentials *ret,
		     struct cairn_err *err);

/* Opens the store of a BackupStorageLocation; nothing is asked of the server. Failing requests
 * are retried for `retry_ms` (0: the store's default). */
int velero_location_open(struct kube_client *client, const json_t *object, const char *directories,
			 uint64_t retry_ms, const struct kube_call *how, struct repo_store **ret,
			 struct cairn_err *err);

#endif
