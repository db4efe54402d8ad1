/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/secret.h"

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/object.h"

#define EXPANDED_MAX 1024U /* of a name; Kubernetes' longest is 253 */

static int read_value(const char *key, const json_t *encoded, struct sidecar_secret_entry *ret,
		      struct cairn_err *err)
{
	const char *text = json_string_value(encoded);

	ret->key = cairn_strdup(key);
	if (!ret->key)
		return cairn_err_nomem(err, "secret");
	ret->value = text ? cairn_base64_text(text, json_string_length(encoded)) : NULL;
	ret->value_len = ret->value ? strlen(ret->value) : 0;
	if (!ret->value || !cairn_utf8_valid(ret->value, ret->value_len))
		return cairn_err_set(err, CAIRN_INVALID, "the secret's '%s' is not base64 of text",
				     key);
	return 0;
}

int sidecar_secret_new(const json_t *object, struct sidecar_secret **ret, struct cairn_err *err)
{
	cairn_cleanup(sidecar_secret_freep) struct sidecar_secret *secret =
		cairn_calloc(1, sizeof(*secret));
	json_t *data = kube_at(object, "data");
	size_t n = json_object_size(data);
	const char *key;
	json_t *value;

	if (!secret)
		return cairn_err_nomem(err, "secret");
	if (n > SIDECAR_SECRET_KEYS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the secret has more than %u keys",
				     SIDECAR_SECRET_KEYS_MAX);
	secret->entries = cairn_calloc(n ? n : 1, sizeof(*secret->entries));
	if (!secret->entries)
		return cairn_err_nomem(err, "secret");
	json_object_foreach(data, key, value)
	{
		int rc = read_value(key, value, &secret->entries[secret->n++], err);

		if (rc)
			return rc;
	}
	*ret = cairn_take(secret);
	return 0;
}

void sidecar_secret_free(struct sidecar_secret *secret)
{
	if (!secret)
		return;
	for (size_t i = 0; i < secret->n; i++) {
		struct sidecar_secret_entry *entry = &secret->entries[i];

		if (entry->value)
			explicit_bzero(entry->value, entry->value_len);
		free(entry->value);
		free(entry->key);
	}
	free(secret->entries);
	free(secret);
}

static const char *secret_meaning(const struct sidecar_template *with, const char *token, size_t n)
{
	const struct {
		const char *token;
		const char *value;
	} known[] = {
		{"volumesnapshotcontent.name", with->content},
		{"volumesnapshot.namespace", with->ns},
		{"volumesnapshot.name", with->name},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].token) == n && memcmp(known[i].token, token, n) == 0)
			return known[i].value;
	return NULL;
}

int sidecar_template_expand(const struct sidecar_template *with, const char *text, char **ret,
			    struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(EXPANDED_MAX);
	const char *all = text;

	while (*text) {
		const char *close = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;
		const char *value =
			close ? secret_meaning(with, text + 2, (size_t)(close - text - 2)) : NULL;

		if (*text != '$') {
			cairn_buf_addc(&out, *text++);
			continue;
		}
		if (!value)
			return cairn_err_set(err, CAIRN_INVALID, "'%s' has an invalid token", all);
		cairn_buf_adds(&out, value);
		text = close + 1;
	}
	*ret = cairn_buf_take_string(&out);
	if (!*ret)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is too long", all);
	return 0;
}
