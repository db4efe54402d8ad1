/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/velero_names.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define SHA256_BYTES  32
#define KEPT_BYTES    57
#define SUFFIX_DIGITS 6

const struct kube_resource velero_backups = {
	.group = "velero.io",
	.version = "v1",
	.plural = "backups",
	.kind = "Backup",
	.namespaced = true,
};

const struct kube_resource velero_restores = {
	.group = "velero.io",
	.version = "v1",
	.plural = "restores",
	.kind = "Restore",
	.namespaced = true,
};

const struct kube_resource velero_data_uploads = {
	.group = "velero.io",
	.version = "v2alpha1",
	.plural = "datauploads",
	.kind = "DataUpload",
	.namespaced = true,
};

const struct kube_resource velero_data_downloads = {
	.group = "velero.io",
	.version = "v2alpha1",
	.plural = "datadownloads",
	.kind = "DataDownload",
	.namespaced = true,
};

const struct kube_resource velero_snapshot_locations = {
	.group = "velero.io",
	.version = "v1",
	.plural = "volumesnapshotlocations",
	.kind = "VolumeSnapshotLocation",
	.namespaced = true,
};
const struct kube_resource velero_volume_backups = {
	.group = "velero.io",
	.version = "v1",
	.plural = "volumepluginbackups",
	.kind = "VolumePluginBackup",
	.namespaced = true,
};
const struct kube_resource velero_volume_restores = {
	.group = "velero.io",
	.version = "v1",
	.plural = "volumepluginrestores",
	.kind = "VolumePluginRestore",
	.namespaced = true,
};

/* Hashes the concatenated texts. */
static int sha256_hex(const char *a, const char *b, const char *c, char out[2 * SHA256_BYTES + 1],
		      struct cairn_err *err)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool made = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(context, a, strlen(a)) == 1 &&
		    EVP_DigestUpdate(context, b, strlen(b)) == 1 &&
		    EVP_DigestUpdate(context, c, strlen(c)) == 1 &&
		    EVP_DigestFinal_ex(context, digest, NULL) == 1;

	EVP_MD_CTX_free(context);
	if (!made)
		return cairn_err_nomem(err, "a digest");
	for (size_t i = 0; i < SHA256_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

int velero_label_value(const char *name, char out[VELERO_LABEL_VALUE_MAX], struct cairn_err *err)
{
	char hex[2 * SHA256_BYTES + 1];
	int rc;

	if (strlen(name) < VELERO_LABEL_VALUE_MAX) {
		snprintf(out, VELERO_LABEL_VALUE_MAX, "%s", name);
		return 0;
	}
	rc = sha256_hex(name, "", "", hex, err);
	if (!rc)
		snprintf(out, VELERO_LABEL_VALUE_MAX, "%.*s%.*s", KEPT_BYTES, name, SUFFIX_DIGITS,
			 hex);
	return rc;
}

static bool is_alphanumeric(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_label(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_alphanumeric(text[i]) && (i == 0 || i == n - 1 || !strchr("-_.", text[i])))
			return false;
	return n < VELERO_LABEL_VALUE_MAX;
}

int velero_label_of_text(const char *text, char out[VELERO_LABEL_VALUE_MAX], struct cairn_err *err)
{
	char hex[2 * SHA256_BYTES + 1];
	size_t n = strlen(text);
	int rc;

	if (is_label(text, n)) {
		snprintf(out, VELERO_LABEL_VALUE_MAX, "%s", text);
		return 0;
	}
	rc = sha256_hex(text, "", "", hex, err);
	if (rc)
		return rc;
	n = n < KEPT_BYTES ? n : KEPT_BYTES;
	for (size_t i = 0; i < n; i++)
		out[i] = is_alphanumeric(text[i]) ? text[i] : '-';
	if (n > 0 && !is_alphanumeric(out[0]))
		out[0] = 'x';
	snprintf(out + n, VELERO_LABEL_VALUE_MAX - n, "%.*s", SUFFIX_DIGITS, hex);
	return 0;
}

const char *velero_selector(const char *label, const char *value, char out[VELERO_SELECTOR_MAX])
{
	snprintf(out, VELERO_SELECTOR_MAX, "%s=%s", label, value);
	return out;
}

int velero_restored_name(const char *restore_uid, const char *name,
			 char out[VELERO_RESTORED_NAME_MAX], struct cairn_err *err)
{
	return sha256_hex(restore_uid, "/", name, out, err);
}

bool velero_list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list;; p++) {
		size_t part = strcspn(p, ",");

		if (part == n && strncmp(p, word, n) == 0)
			return true;
		p += part;
		if (!*p)
			return false;
	}
}
