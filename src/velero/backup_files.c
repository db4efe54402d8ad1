/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/backup_files.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/grpc/gunzip.h"
#include "net/stream.h"
#include "repo/repo_objects.h"

#define GZIP_WINDOW (15 + 16) /* tells zlib to write the gzip wrapper */

int velero_file_key(const char *backup, const char *file, char out[VELERO_FILE_KEY_MAX],
		    struct cairn_err *err)
{
	int n = snprintf(out, VELERO_FILE_KEY_MAX, "backups/%s/%s%s", backup,
			 file[0] == '-' ? backup : "", file);

	if (n < 0 || n >= VELERO_FILE_KEY_MAX || !*backup || strchr(backup, '/') ||
	    !repo_key_valid(out))
		return cairn_err_set(err, CAIRN_INVALID, "'%.80s' is not the name of a backup",
				     backup);
	return 0;
}

static bool is_gzip(const char *key)
{
	size_t n = strlen(key);

	return n > 3 && strcmp(key + n - 3, ".gz") == 0;
}

static int parse_gzip(const uint8_t *data, size_t n, json_t **ret, struct cairn_err *err)
{
	cairn_auto_free struct net_msg *text = NULL;
	int rc = net_gunzip(data, n, VELERO_FILE_TEXT_MAX, &text, err);

	return rc ? rc : kube_json_parse((const char *)text->data, text->len, ret, err);
}

int velero_file_read(struct repo_store *store, const char *backup, const char *file, json_t **ret,
		     struct cairn_err *err)
{
	char key[VELERO_FILE_KEY_MAX];
	cairn_auto_free uint8_t *data = NULL;
	size_t n = 0;
	int rc = velero_file_key(backup, file, key, err);

	if (!rc)
		rc = repo_object_get(store, key, VELERO_FILE_GZIP_MAX, &data, &n, err);
	if (rc)
		return rc;
	rc = is_gzip(key) ? parse_gzip(data, n, ret, err)
			  : kube_json_parse((const char *)data, n, ret, err);
	if (rc == CAIRN_INVALID || rc == CAIRN_INTERNAL) {
		struct cairn_err why = *err;

		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "%s", why.msg);
	}
	return rc ? cairn_err_wrap(err, "'%s'", key) : 0;
}

/* Compresses the text; *ret is the caller's. */
static int gzip_text(const char *text, size_t n, uint8_t **ret, size_t *ret_n,
		     struct cairn_err *err)
{
	z_stream z = {0};
	cairn_auto_free uint8_t *out = NULL;
	size_t cap;
	int rc;

	if (n > VELERO_FILE_TEXT_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "a file of a backup is too large");
	if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return cairn_err_nomem(err, "a file of a backup");
	cap = deflateBound(&z, n);
	out = cairn_alloc(cap);
	z.next_in = (Bytef *)(uintptr_t)text;
	z.avail_in = (uInt)n;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	rc = out ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
	*ret_n = z.total_out;
	deflateEnd(&z);
	if (rc != Z_STREAM_END)
		return cairn_err_nomem(err, "a file of a backup");
	*ret = cairn_take(out);
	return 0;
}

int velero_file_write(struct repo_store *store, const char *backup, const char *file,
		      const json_t *value, struct cairn_err *err)
{
	char key[VELERO_FILE_KEY_MAX];
	cairn_auto_free char *text = NULL;
	cairn_auto_free uint8_t *data = NULL;
	size_t n = 0, data_n = 0;
	int rc = velero_file_key(backup, file, key, err);

	if (rc)
		return rc;
	text = kube_json_text(value, &n);
	if (!text)
		return cairn_err_nomem(err, "a file of a backup");
	rc = gzip_text(text, n, &data, &data_n, err);
	return rc ? rc : repo_object_put(store, key, data, data_n, err);
}

int velero_file_remove(struct repo_store *store, const char *backup, const char *file,
		       struct cairn_err *err)
{
	char key[VELERO_FILE_KEY_MAX];
	int rc = velero_file_key(backup, file, key, err);

	return rc ? rc : repo_object_remove(store, key, err);
}

int velero_file_has_backup(struct repo_store *store, const char *backup, bool *ret,
			   struct cairn_err *err)
{
	char key[VELERO_FILE_KEY_MAX];
	cairn_auto_free uint8_t *data = NULL;
	size_t n = 0;
	int rc = velero_file_key(backup, VELERO_FILE_METADATA, key, err);

	if (!rc)
		rc = repo_object_get(store, key, VELERO_FILE_GZIP_MAX, &data, &n, err);
	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}
