/* SPDX-License-Identifier: Apache-2.0 */

/* Keys for the object store of a BackupStorageLocation. */

#include "velero/location.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "repo/aws_credentials.h"

#define SECRET_DEFAULT     "cloud-credentials"
#define SECRET_KEY_DEFAULT "cloud"

static void location_wipe(char **text)
{
	if (*text)
		OPENSSL_cleanse(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

static int keys_of_secret(struct kube_client *client, const char *ns, const char *name,
			  const char *key, const char *profile, const struct kube_call *how,
			  struct repo_aws_credentials *ret, struct cairn_err *err)
{
	kube_auto_json json_t *secret = NULL;
	const char *encoded;
	char *text;
	int rc = kube_get(client, KUBE_REF(&kube_secrets, ns, name), how, &secret, err);

	if (rc)
		return cairn_err_wrap(err, "Secret %s/%s", ns, name);
	encoded = kube_str(secret, "data", key);
	if (!encoded)
		return cairn_err_set(err, CAIRN_INVALID, "Secret %s/%s has no key '%s'", ns, name,
				     key);
	text = cairn_base64_text(encoded, strlen(encoded));
	if (!text)
		return cairn_err_set(err, CAIRN_INVALID, "Secret %s/%s is not base64", ns, name);
	rc = repo_aws_credentials_parse(text, strlen(text), profile, ret, err);
	location_wipe(&text);
	return rc ? cairn_err_wrap(err, "Secret %s/%s", ns, name) : 0;
}

static int keys_of_environment(struct repo_aws_credentials *ret, struct cairn_err *err)
{
	const char *token = getenv("AWS_SESSION_TOKEN");

	ret->access_key = cairn_strdup(getenv("AWS_ACCESS_KEY_ID"));
	ret->secret_key = cairn_strdup(getenv("AWS_SECRET_ACCESS_KEY"));
	ret->session_token = token && *token ? cairn_strdup(token) : NULL;
	return ret->access_key && ret->secret_key ? 0 : cairn_err_nomem(err, "keys");
}

int velero_keys_find(struct kube_client *client, const char *ns, const struct velero_place *place,
		     const struct kube_call *how, struct repo_aws_credentials *ret,
		     struct cairn_err *err)
{
	const char *file = getenv("AWS_SHARED_CREDENTIALS_FILE");

	if (place->secret)
		return keys_of_secret(client, ns, place->secret,
				      place->secret_key ? place->secret_key : SECRET_KEY_DEFAULT,
				      place->profile, how, ret, err);
	if (file && *file)
		return repo_aws_credentials_read(file, place->profile, ret, err);
	if (getenv("AWS_ACCESS_KEY_ID") && getenv("AWS_SECRET_ACCESS_KEY"))
		return keys_of_environment(ret, err);
	if (!client)
		return cairn_err_set(err, CAIRN_INVALID,
				     "no keys for S3: set AWS_SHARED_CREDENTIALS_FILE, or "
				     "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	return keys_of_secret(client, ns, SECRET_DEFAULT, SECRET_KEY_DEFAULT, place->profile, how,
			      ret, err);
}
