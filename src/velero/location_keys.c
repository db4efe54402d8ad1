/* SPDX-License-Identifier: Apache-2.0 */

/* Keys for the object store of a BackupStorageLocation. */

#include "velero/location.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define CREDENTIALS_MAX    65536U /* of a credentials file, which a user writes */
#define SECRET_DEFAULT     "cloud-credentials"
#define SECRET_KEY_DEFAULT "cloud"

static void location_wipe(char **text)
{
	if (*text)
		OPENSSL_cleanse(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void velero_keys_done(struct velero_keys *keys)
{
	location_wipe(&keys->access_key);
	location_wipe(&keys->secret_key);
	location_wipe(&keys->session_token);
}

/* A part of a line without the blanks around it. */
struct word {
	const char *text;
	size_t n;
};

static struct word trim(const char *text, size_t n)
{
	while (n > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		n--;
	}
	while (n > 0 && strchr(" \t\r", text[n - 1]))
		n--;
	return (struct word){text, n};
}

static bool word_is(struct word word, const char *text)
{
	return word.n == strlen(text) && memcmp(word.text, text, word.n) == 0;
}

/* Keeps the value of a line "name = value". */
static int keep_value(struct word line, struct velero_keys *keys, struct cairn_err *err)
{
	const char *equals = memchr(line.text, '=', line.n);
	struct word name, value;
	char **to = NULL;

	if (!equals)
		return 0;
	name = trim(line.text, (size_t)(equals - line.text));
	value = trim(equals + 1, line.n - (size_t)(equals + 1 - line.text));
	if (word_is(name, "aws_access_key_id"))
		to = &keys->access_key;
	else if (word_is(name, "aws_secret_access_key"))
		to = &keys->secret_key;
	else if (word_is(name, "aws_session_token"))
		to = &keys->session_token;
	if (!to || value.n == 0)
		return 0;
	location_wipe(to);
	*to = cairn_strndup(value.text, value.n);
	return *to ? 0 : cairn_err_nomem(err, "a key");
}

/* Is the line "[profile]" or "[profile NAME]" of that name? */
static bool is_section(struct word line, const char *profile)
{
	struct word name = trim(line.text + 1, line.n - 2);

	if (word_is(name, profile))
		return true;
	if (name.n <= 8 || strncmp(name.text, "profile ", 8) != 0)
		return false;
	return word_is(trim(name.text + 8, name.n - 8), profile);
}

int velero_keys_parse(const char *text, const char *profile, struct velero_keys *ret,
		      struct cairn_err *err)
{
	cairn_cleanup(velero_keys_done) struct velero_keys keys = {0};
	const char *wanted = profile && *profile ? profile : "default";
	bool inside = false;

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		struct word line = trim(p, n);

		p += p[n] ? n + 1 : n;
		if (line.n == 0 || line.text[0] == '#' || line.text[0] == ';')
			continue;
		if (line.text[0] == '[' && line.text[line.n - 1] == ']')
			inside = is_section(line, wanted);
		else if (inside && keep_value(line, &keys, err))
			return CAIRN_NO_SPACE;
	}
	if (!keys.access_key || !keys.secret_key)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "the credentials have no keys in profile '%s'", wanted);
	*ret = keys;
	keys = (struct velero_keys){0};
	return 0;
}

static int keys_of_secret(struct kube_client *client, const char *ns, const char *name,
			  const char *key, const char *profile, const struct kube_call *how,
			  struct velero_keys *ret, struct cairn_err *err)
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
	rc = velero_keys_parse(text, profile, ret, err);
	location_wipe(&text);
	return rc ? cairn_err_wrap(err, "Secret %s/%s", ns, name) : 0;
}

static int keys_of_file(const char *path, const char *profile, struct velero_keys *ret,
			struct cairn_err *err)
{
	char *text = NULL;
	size_t n = 0;
	int rc = cairn_file_read(AT_FDCWD, path, CREDENTIALS_MAX, &text, &n, err);

	if (!rc)
		rc = velero_keys_parse(text, profile, ret, err);
	location_wipe(&text);
	return rc;
}

static int keys_of_environment(struct velero_keys *ret, struct cairn_err *err)
{
	const char *token = getenv("AWS_SESSION_TOKEN");

	ret->access_key = cairn_strdup(getenv("AWS_ACCESS_KEY_ID"));
	ret->secret_key = cairn_strdup(getenv("AWS_SECRET_ACCESS_KEY"));
	ret->session_token = token && *token ? cairn_strdup(token) : NULL;
	return ret->access_key && ret->secret_key ? 0 : cairn_err_nomem(err, "keys");
}

int velero_keys_find(struct kube_client *client, const char *ns, const struct velero_place *place,
		     const struct kube_call *how, struct velero_keys *ret, struct cairn_err *err)
{
	const char *file = getenv("AWS_SHARED_CREDENTIALS_FILE");

	if (place->secret)
		return keys_of_secret(client, ns, place->secret,
				      place->secret_key ? place->secret_key : SECRET_KEY_DEFAULT,
				      place->profile, how, ret, err);
	if (file && *file)
		return keys_of_file(file, place->profile, ret, err);
	if (getenv("AWS_ACCESS_KEY_ID") && getenv("AWS_SECRET_ACCESS_KEY"))
		return keys_of_environment(ret, err);
	if (!client)
		return cairn_err_set(err, CAIRN_INVALID,
				     "no keys for S3: set AWS_SHARED_CREDENTIALS_FILE, or "
				     "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
	return keys_of_secret(client, ns, SECRET_DEFAULT, SECRET_KEY_DEFAULT, place->profile, how,
			      ret, err);
}
