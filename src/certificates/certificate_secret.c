/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_secret.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "certificates/certificate_trust.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define CERT_MANAGER_ANNOTATION "cert-manager.io/certificate-name"
#define VALUE_MAX               (128U << 10)

static void free_secret_text(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void certificates_secret_done(struct certificates_secret *secret)
{
	certificates_pair_done(&secret->current);
	certificates_pair_done(&secret->next);
	free(secret->bundle);
	free_secret_text(secret->word);
	free(secret->version);
	*secret = (struct certificates_secret){0};
}

/* A text that is not a certificate is replaced; one that cannot be read is an error. */
static int secret_read_value(const json_t *object, const char *key, char **ret,
			     struct cairn_err *err)
{
	const char *text = kube_str(object, "data", key);

	if (!text || !*text)
		return 0;
	*ret = cairn_base64_text(text, strlen(text));
	return *ret ? 0 : cairn_err_set(err, CAIRN_INVALID, "%s is not text", key);
}

static int read_values(const json_t *object, struct certificates_secret *s, struct cairn_err *err)
{
	const struct {
		const char *key;
		char **value;
	} values[] = {
		{"tls.crt", &s->current.crt}, {"tls.key", &s->current.key},
		{"next.crt", &s->next.crt},   {"next.key", &s->next.key},
		{"ca.crt", &s->bundle},       {"webhook-secret", &s->word},
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(values) / sizeof(values[0]); i++)
		rc = secret_read_value(object, values[i].key, values[i].value, err);
	return rc;
}

int certificates_secret_read(struct kube_client *client, const char *ns, const char *name,
			     struct certificates_secret *ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc;

	*ret = (struct certificates_secret){0};
	rc = kube_get(client, KUBE_REF(&kube_secrets, ns, name), NULL, &object, err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (!rc)
		rc = read_values(object, ret, err);
	if (rc)
		return cairn_err_wrap(err, "Secret %s", name);
	ret->is_foreign = kube_annotation(object, CERT_MANAGER_ANNOTATION) != NULL;
	ret->version = cairn_strdup(kube_resource_version(object));
	return ret->version ? 0 : cairn_err_nomem(err, "Secret");
}

static int secret_set_value(json_t *object, const char *key, const char *text,
			    struct cairn_err *err)
{
	cairn_auto_secret_buf struct cairn_buf value = CAIRN_BUF_INIT(VALUE_MAX);

	if (!text)
		return 0;
	cairn_base64_add(&value, text, strlen(text));
	if (cairn_buf_failed(&value))
		return cairn_err_nomem(err, "Secret");
	return kube_set(object, err, json_stringn((const char *)value.data, value.len), "data",
			key);
}

static int fill(json_t *object, const struct certificates_secret *s, struct cairn_err *err)
{
	int rc = kube_set(object, err, json_string("kubernetes.io/tls"), "type");

	if (!rc && s->version)
		rc = kube_set(object, err, json_string(s->version), "metadata", "resourceVersion");
	if (!rc)
		rc = secret_set_value(object, "tls.crt", s->current.crt, err);
	if (!rc)
		rc = secret_set_value(object, "tls.key", s->current.key, err);
	if (!rc)
		rc = secret_set_value(object, "next.crt", s->next.crt, err);
	if (!rc)
		rc = secret_set_value(object, "next.key", s->next.key, err);
	if (!rc)
		rc = secret_set_value(object, "ca.crt", s->bundle, err);
	return rc ? rc : secret_set_value(object, "webhook-secret", s->word, err);
}

/* Without a version it was not there: what another has made meanwhile is a conflict. */
int certificates_secret_write(struct kube_client *client, const char *ns, const char *name,
			      struct certificates_secret *secret, struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_object_new(&kube_secrets, ns, name), *made = NULL;
	const struct kube_call how = {.field_manager = CERTIFICATES_FIELD_MANAGER};
	int rc = object ? fill(object, secret, err) : cairn_err_nomem(err, "Secret");

	if (!rc)
		rc = kube_apply(client, KUBE_REF(&kube_secrets, ns, name), object,
				secret->version != NULL, &how, &made, err);
	if (rc)
		return cairn_err_wrap(err, "Secret %s", name);
	free(secret->version);
	secret->version = cairn_strdup(kube_resource_version(made));
	return secret->version ? 0 : cairn_err_nomem(err, "Secret");
}
