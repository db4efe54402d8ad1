/* SPDX-License-Identifier: Apache-2.0 */

/* Storing blobs, singly and in batches. */

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/packer.h"
#include "repo/repo_impl.h"

/* Makes a failure permanent: a blob that is reserved in the index will never be stored, so
 * nothing may refer to it. */
static int blob_stick(struct repo *repo, int rc, const struct cairn_err *why, struct cairn_err *err)
{
	repo_fail(repo, why);
	if (err)
		*err = *why;
	return rc;
}

struct repo_blob_batch {
	struct repo *repo;
	struct repo_codec *codec; /* from the first put until the end, or NULL */
	struct cairn_buf bytes;
	struct repo_sealed *blobs;
	size_t n, cap;
};

static int blob_keep(struct repo_blob_batch *batch, const struct repo_sealed *blob,
		     const uint8_t *sealed, struct cairn_err *err)
{
	if (batch->n == batch->cap) {
		size_t cap = batch->cap ? batch->cap * 2 : 64;
		struct repo_sealed *blobs = cairn_realloc_array(batch->blobs, cap, sizeof(*blobs));

		if (!blobs)
			return cairn_err_nomem(err, "blobs");
		batch->blobs = blobs;
		batch->cap = cap;
	}
	cairn_buf_add(&batch->bytes, sealed, blob->n);
	if (cairn_buf_failed(&batch->bytes))
		return cairn_err_nomem(err, "blobs");
	batch->blobs[batch->n++] = *blob;
	return 0;
}

/* Seals the blob and passes it to the batch. */
static int blob_store_in(struct repo_blob_batch *batch, struct repo_sealed *blob, const void *data,
			 size_t n, struct cairn_err *err)
{
	const uint8_t *sealed;
	int rc = batch->codec ? 0 : repo_codec_get(&batch->repo->codecs, &batch->codec, err);

	if (rc == 0)
		rc = repo_codec_encode(batch->codec, data, n, true, &sealed, &blob->n, &blob->plain,
				       err);
	if (rc == 0)
		rc = blob_keep(batch, blob, sealed, err);
	return rc < 0 ? rc : repo_codec_check_later(batch->codec, blob->n, n, &blob->id, err);
}

/* Seals the blob and passes it to the packer. */
static int blob_store(struct repo *repo, enum repo_blob_type type, struct repo_sealed *blob,
		      const void *data, size_t n, struct cairn_err *err)
{
	struct repo_codec *codec = NULL;
	const uint8_t *sealed;
	int rc = repo_codec_get(&repo->codecs, &codec, err);

	if (rc < 0)
		return rc;
	/* Trees are always compressed: restic's prune would rewrite uncompressed ones each time. */
	rc = repo_codec_encode(codec, data, n, type == REPO_BLOB_DATA, &sealed, &blob->n,
			       &blob->plain, err);
	if (rc == 0)
		rc = repo_packer_append(repo->packer, type, blob, 1, sealed, err);
	if (rc == 0) /* safe after append: a failure is permanent, so no index will name the blob */
		rc = repo_codec_check(codec, blob->n, &blob->id, err);
	repo_codec_put(&repo->codecs, codec);
	return rc;
}

static int blob_add_to(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		       const void *data, size_t n, struct repo_blob_batch *batch, bool *ret_new,
		       struct cairn_err *err)
{
	struct repo_sealed blob = {.id = *id};
	struct cairn_err why = {0};
	bool known;
	int rc = repo_index_reserve(repo->index, type, id, &blob.entry, &known, err);

	if (rc < 0)
		return rc;
	if (ret_new)
		*ret_new = !known;
	if (known) {
		repo->blobs_known++;
		return 0;
	}
	rc = batch ? blob_store_in(batch, &blob, data, n, &why)
		   : blob_store(repo, type, &blob, data, n, &why);
	if (rc < 0)
		return blob_stick(repo, rc, &why, err);
	repo->blobs_new++;
	repo->bytes_new += n;
	return 0;
}

int repo_blob_add(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		  const void *data, size_t n, bool *ret_new, struct cairn_err *err)
{
	return blob_add_to(repo, type, id, data, n, NULL, ret_new, err);
}

static int blob_may_put(struct repo *repo, enum repo_blob_type type, size_t n,
			struct cairn_err *err)
{
	size_t most = type == REPO_BLOB_TREE ? REPO_BLOB_MAX : REPO_DATA_PUT_MAX;
	int rc = repo_may_write(repo, err);

	if (rc < 0)
		return rc;
	if (n == 0 || n > most)
		return cairn_err_set(err, CAIRN_INVALID, "a blob of %zu bytes", n);
	return repo_failed(repo, err);
}

static int blob_put_to(struct repo *repo, enum repo_blob_type type, const void *data, size_t n,
		       struct repo_blob_batch *batch, struct repo_id *ret_id, bool *ret_new,
		       struct cairn_err *err)
{
	struct repo_id id;
	int rc = blob_may_put(repo, type, n, err);

	if (rc < 0)
		return rc;
	if (!repo_id_of(data, n, &id))
		return cairn_err_nomem(err, "a hash");
	rc = blob_add_to(repo, type, &id, data, n, batch, ret_new, err);
	if (rc == 0)
		*ret_id = id;
	return rc;
}

int repo_blob_put(struct repo *repo, enum repo_blob_type type, const void *data, size_t n,
		  struct repo_id *ret_id, bool *ret_new, struct cairn_err *err)
{
	return blob_put_to(repo, type, data, n, NULL, ret_id, ret_new, err);
}

/* ---- batches --------------------------------------------------------------- */

int repo_blob_batch_new(struct repo *repo, struct repo_blob_batch **ret, struct cairn_err *err)
{
	struct repo_blob_batch *batch = cairn_calloc(1, sizeof(*batch));

	if (!batch)
		return cairn_err_nomem(err, "blobs");
	batch->repo = repo;
	cairn_buf_init(&batch->bytes, SIZE_MAX / 2);
	*ret = batch;
	return 0;
}

int repo_blob_batch_put(struct repo_blob_batch *batch, const void *data, size_t n,
			struct repo_id *ret_id, bool *ret_new, struct cairn_err *err)
{
	return blob_put_to(batch->repo, REPO_BLOB_DATA, data, n, batch, ret_id, ret_new, err);
}

int repo_blob_batch_add(struct repo_blob_batch *batch, const struct repo_id *id, const void *data,
			size_t n, bool *ret_new, struct cairn_err *err)
{
	int rc = blob_may_put(batch->repo, REPO_BLOB_DATA, n, err);

	return rc < 0 ? rc
		      : blob_add_to(batch->repo, REPO_BLOB_DATA, id, data, n, batch, ret_new, err);
}

int repo_blob_batch_end(struct repo_blob_batch *batch, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = batch->codec ? repo_codec_check_rest(batch->codec, &why) : 0;

	if (rc == 0)
		rc = repo_packer_append(batch->repo->packer, REPO_BLOB_DATA, batch->blobs, batch->n,
					batch->bytes.data, &why);
	repo_codec_put(&batch->repo->codecs, batch->codec);
	batch->codec = NULL;
	batch->n = 0;
	cairn_buf_reset(&batch->bytes);
	return rc < 0 ? blob_stick(batch->repo, rc, &why, err) : 0;
}

void repo_blob_batch_free(struct repo_blob_batch *batch)
{
	if (!batch)
		return;
	repo_codec_put(&batch->repo->codecs, batch->codec);
	cairn_buf_done(&batch->bytes);
	free(batch->blobs);
	free(batch);
}

int repo_flush(struct repo *repo, struct cairn_err *err)
{
	int rc = repo_may_write(repo, err);

	return rc < 0 ? rc : repo_packer_flush(repo->packer, err);
}
