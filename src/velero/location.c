/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/location.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "repo/aws_credentials.h"
#include "repo/repo_objects.h"
#include "repo/repo_store.h"

const struct kube_resource velero_locations = {
	.group = "velero.io",
	.version = "v1",
	.plural = "backupstoragelocations",
	.kind = "BackupStorageLocation",
	.namespaced = true,
};

void velero_place_done(struct velero_place *place)
{
	free(place->location);
	free(place->region);
	free(place->ca_pem);
	free(place->profile);
	free(place->secret);
	free(place->secret_key);
	*place = (struct velero_place){0};
}

static int copy_text(char **to, const char *from, struct cairn_err *err)
{
	if (!from || !*from)
		return 0;
	*to = cairn_strdup(from);
	return *to ? 0 : cairn_err_nomem(err, "a location");
}

static bool is_true(const char *text)
{
	return text && (strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
}

/* "/prefix" without slashes at its ends, or "". */
static char *prefix_text(const json_t *object)
{
	const char *prefix = kube_str(object, "spec", "objectStorage", "prefix");
	size_t n;

	if (!prefix)
		return cairn_strdup("");
	prefix += strspn(prefix, "/");
	n = strlen(prefix);
	while (n > 0 && prefix[n - 1] == '/')
		n--;
	return n ? cairn_printf("/%.*s", (int)n, prefix) : cairn_strdup("");
}

/* "http[s]://HOST[:PORT][/PATH]": no password, which Job specs would show, and nothing that
 * makes a URL parser read another host than the eye does. */
static bool is_address(const char *url)
{
	const char *rest = strncmp(url, "https://", 8) == 0  ? url + 8
			   : strncmp(url, "http://", 7) == 0 ? url + 7
							     : "";

	return *rest && *rest != '/' &&
	       rest[strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789-._~%:/[]")] == '\0';
}

static bool is_region(const char *region)
{
	return region[strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-_")] == '\0';
}

static int location_s3(const json_t *object, const char *bucket, const char *prefix,
		       struct velero_place *place, struct cairn_err *err)
{
	const json_t *config = kube_at(object, "spec", "config");
	const char *url = kube_str(config, "s3Url"), *region = kube_str(config, "region");
	const char *ca = kube_str(object, "spec", "objectStorage", "caCert");
	size_t n = url ? strlen(url) : 0;
	int rc;

	if (is_true(kube_str(config, "insecureSkipTLSVerify")))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "insecureSkipTLSVerify: name the authority in caCert instead");
	if ((n && !is_address(url)) || (region && !is_region(region)))
		return cairn_err_set(err, CAIRN_INVALID,
				     "s3Url is not http[s]://HOST[:PORT], or region is malformed");
	while (n > 0 && url[n - 1] == '/')
		n--;
	place->is_s3 = true;
	place->path_style = is_true(kube_str(config, "s3ForcePathStyle"));
	place->location =
		n ? cairn_printf("s3:%.*s/%s%s", (int)n, url, bucket, prefix)
		  : cairn_printf("s3:https://s3.%s.amazonaws.com/%s%s",
				 region && *region ? region : "us-east-1", bucket, prefix);
	if (!place->location)
		return cairn_err_nomem(err, "a location");
	rc = copy_text(&place->region, region, err);
	if (!rc)
		rc = copy_text(&place->profile, kube_str(config, "profile"), err);
	if (rc || !ca || !*ca)
		return rc;
	place->ca_pem = cairn_base64_text(ca, strlen(ca));
	return place->ca_pem ? 0 : cairn_err_set(err, CAIRN_INVALID, "caCert is not base64");
}

static int location_directory(const char *bucket, const char *prefix, const char *directories,
			      struct velero_place *place, struct cairn_err *err)
{
	if (!directories)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "provider " VELERO_PROVIDER_DIRECTORY
				     " needs --velero-directories");
	place->location = cairn_printf("local:%s/%s%s", directories, bucket, prefix);
	return place->location ? 0 : cairn_err_nomem(err, "a location");
}

static int location_credential(const json_t *object, struct velero_place *place,
			       struct cairn_err *err)
{
	const json_t *credential = kube_at(object, "spec", "credential");
	int rc = copy_text(&place->secret, kube_str(credential, "name"), err);

	return rc ? rc : copy_text(&place->secret_key, kube_str(credential, "key"), err);
}

int velero_place_read(const json_t *object, const char *directories, struct velero_place *ret,
		      struct cairn_err *err)
{
	const char *provider = kube_str(object, "spec", "provider");
	const char *bucket = kube_str(object, "spec", "objectStorage", "bucket");
	cairn_cleanup(velero_place_done) struct velero_place place = {0};
	cairn_auto_free char *prefix = prefix_text(object);
	int rc;

	if (!prefix)
		return cairn_err_nomem(err, "a location");
	if (!provider || !bucket || strchr(bucket, '/') || !repo_key_valid(bucket) ||
	    (*prefix && !repo_key_valid(prefix + 1)))
		return cairn_err_set(err, CAIRN_INVALID,
				     "BackupStorageLocation %s has no provider, bucket or prefix "
				     "that can be used",
				     kube_name(object));
	if (strcmp(provider, "aws") == 0 || strcmp(provider, "velero.io/aws") == 0)
		rc = location_s3(object, bucket, prefix, &place, err);
	else if (strcmp(provider, VELERO_PROVIDER_DIRECTORY) == 0)
		rc = location_directory(bucket, prefix, directories, &place, err);
	else
		rc = cairn_err_set(err, CAIRN_UNIMPLEMENTED, "provider '%.60s' is not supported",
				   provider);
	if (!rc)
		rc = location_credential(object, &place, err);
	if (rc)
		return cairn_err_wrap(err, "BackupStorageLocation %s", kube_name(object));
	*ret = place;
	place = (struct velero_place){0};
	return 0;
}

int velero_location_open(struct kube_client *client, const json_t *object, const char *directories,
			 uint64_t retry_ms, const struct kube_call *how, struct repo_store **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(velero_place_done) struct velero_place place = {0};
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials keys = {0};
	struct repo_store_options options = {.retry_ms = retry_ms};
	int rc = velero_place_read(object, directories, &place, err);

	if (!rc && place.is_s3)
		rc = velero_keys_find(client, kube_namespace(object), &place, how, &keys, err);
	if (rc)
		return rc;
	options.location = place.location;
	options.region = place.region;
	options.ca_pem = place.ca_pem;
	options.s3_style = place.path_style ? REPO_S3_PATH : REPO_S3_AUTO;
	options.access_key = keys.access_key;
	options.secret_key = keys.secret_key;
	options.session_token = keys.session_token;
	return repo_store_open(&options, ret, err);
}
