/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_impl.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/lock.h"
#include "repo/repo_cache.h"
#include "repo/repo_lock.h"

/* Loads the stored bytes, which must hash to their name. */
static int file_get_file(struct repo *repo, enum repo_file kind, const struct repo_id *name,
			 uint8_t **ret, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	char hex[REPO_ID_TEXT_MAX];
	struct repo_id got;
	int rc = repo_store_get_all(repo->store, kind, name, REPO_FILE_STORED_MAX, &data, ret_n,
				    err);

	if (rc < 0)
		return rc;
	repo->bytes_received += *ret_n;
	if (!repo_id_of(data, *ret_n, &got))
		return cairn_err_nomem(err, "a hash");
	if (!repo_id_equal(&got, name))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%s/%s is damaged", repo_file_name(kind),
				     repo_id_format(name, hex));
	if (kind == REPO_FILE_SNAPSHOT)
		repo_cache_put_snapshot(repo, name, data, *ret_n);
	*ret = cairn_take(data);
	return 0;
}

/* True if the snapshot is in the local cache. */
static bool get_cached(struct repo *repo, enum repo_file kind, const struct repo_id *name,
		       uint8_t **ret, size_t *ret_n)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo_id got;

	if (kind != REPO_FILE_SNAPSHOT || !repo_cache_get_snapshot(repo, name, &data, ret_n) ||
	    !repo_id_of(data, *ret_n, &got) || !repo_id_equal(&got, name))
		return false;
	*ret = cairn_take(data);
	return true;
}

int repo_file_load(struct repo *repo, enum repo_file kind, const struct repo_id *name,
		   struct cairn_buf *out, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo_codec *codec = NULL;
	char hex[REPO_ID_TEXT_MAX];
	size_t n;
	int rc = 0;

	if (!get_cached(repo, kind, name, &data, &n))
		rc = file_get_file(repo, kind, name, &data, &n, err);
	if (rc < 0)
		return rc;
	rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_codec_decode_file(codec, data, n, out, err);
	repo_codec_put(&repo->codecs, codec);
	if (rc < 0)
		return cairn_err_wrap(err, "%s/%s", repo_file_name(kind),
				      repo_id_format(name, hex));
	return 0;
}

int repo_file_save(struct repo *repo, enum repo_file kind, const void *json, size_t n,
		   struct repo_id *ret_name, struct cairn_err *err)
{
	return repo_file_save_gated(repo, kind, json, n, NULL, ret_name, err);
}

/* An operation under the exclusive lock may use the reserve: on a full disk nothing could be
 * deleted otherwise. */
static int file_put(struct repo *repo, enum repo_file kind, const uint8_t *data, size_t n,
		    const struct repo_store_gate *gate, struct repo_id *ret_name,
		    struct cairn_err *err)
{
	int rc = CAIRN_NO_SPACE;

	for (int i = 0; i < 2 && rc == CAIRN_NO_SPACE; i++) {
		if (i > 0 && !(repo->lock && repo_lock_exclusive(repo->lock) &&
			       repo_store_reserve_release(repo->store)))
			break;
		rc = gate ? repo_store_put_gated(repo->store, kind, data, n, gate, ret_name, err)
			  : repo_store_put(repo->store, kind, data, n, ret_name, err);
	}
	return rc;
}

int repo_file_save_gated(struct repo *repo, enum repo_file kind, const void *json, size_t n,
			 const struct repo_store_gate *gate, struct repo_id *ret_name,
			 struct cairn_err *err)
{
	struct repo_codec *codec;
	const uint8_t *sealed;
	size_t sealed_n;
	int rc = repo_codec_get(&repo->codecs, &codec, err);

	if (rc < 0)
		return rc;
	rc = repo_codec_encode_file(codec, json, n, &sealed, &sealed_n, err);
	if (rc == 0)
		rc = repo_codec_check_file(codec, sealed_n, json, n, err);
	if (rc == 0)
		rc = file_put(repo, kind, sealed, sealed_n, gate, ret_name, err);
	if (rc == 0 && kind == REPO_FILE_SNAPSHOT)
		repo_cache_put_snapshot(repo, ret_name, sealed, sealed_n);
	repo_codec_put(&repo->codecs, codec);
	if (rc < 0)
		return rc;
	repo->bytes_stored += sealed_n;
	if (kind == REPO_FILE_INDEX) {
		struct repo_named named = {*ret_name, sealed_n};
		cairn_scoped_lock(&repo->parse_mutex);

		(void)repo_names_add(&repo->index_known, &named, NULL); /* saves a second read */
	}
	return 0;
}

int repo_read(struct repo *repo, const struct repo_id *pack, uint64_t offset, void *out, size_t n,
	      struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];
	int rc = repo_store_get(repo->store, REPO_FILE_PACK, pack, offset, out, n, err);

	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_RANGE)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "pack %s is %s",
				     repo_id_format(pack, hex),
				     rc == CAIRN_RANGE ? "cut short" : "missing");
	if (rc == 0)
		repo->bytes_received += n;
	return rc;
}
