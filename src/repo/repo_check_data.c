/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/check_impl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/blob_impl.h"
#include "repo/load.h"
#include "repo/repo_impl.h"

/* Each holds a whole pack. */
#define READERS_MAX 3

static void repo_check_data_tell(struct repo_checking *checking, uint32_t pack, const char *what)
{
	struct repo_id id;
	char hex[REPO_ID_TEXT_MAX], text[CAIRN_ERR_TEXT_MAX + 96];

	repo_index_pack_at(checking->repo->index, pack, &id);
	snprintf(text, sizeof(text), "pack %s: %s", repo_id_format(&id, hex), what);
	repo_check_mark_pack(checking, pack);
	repo_check_problem(checking, CAIRN_DATA_LOSS, text);
}

static bool same_blobs(const struct repo_pack_blob *a, size_t a_n, const struct repo_pack_blob *b,
		       size_t b_n)
{
	if (a_n != b_n)
		return false;
	for (size_t i = 0; i < a_n; i++)
		if (!repo_id_equal(&a[i].id, &b[i].id) || a[i].offset != b[i].offset ||
		    a[i].length != b[i].length || a[i].plain != b[i].plain ||
		    a[i].type != b[i].type)
			return false;
	return true;
}

/* Compares the header of the pack with the index. */
static int repo_check_data_check_header(struct repo_checking *checking, uint32_t pack,
					const uint8_t *data, size_t n, struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *own = NULL, *indexed = NULL;
	struct cairn_err why = {0};
	size_t own_n = 0, indexed_n = 0, need = 0;
	int rc = repo_check_blobs_of(checking, pack, &indexed, &indexed_n, err);

	if (rc < 0)
		return rc;
	rc = repo_pack_parse_tail(checking->repo, data, n, n, &own, &own_n, &need, &why);
	if (rc < 0 && rc != CAIRN_DATA_LOSS)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (rc < 0 || !own)
		repo_check_data_tell(checking, pack, "its header is damaged");
	else if (!same_blobs(own, own_n, indexed, indexed_n))
		repo_check_data_tell(checking, pack, "its header and the index differ");
	return 0;
}

/* Records blobs of the pack that cannot be decrypted or decompressed. */
struct unreadable {
	size_t n;
	struct cairn_err first;
};

static int check_blob(struct repo_codec *codec, const struct repo_pack_blob *blob, uint8_t *data,
		      size_t n, struct cairn_err *err)
{
	struct repo_place place = {
		.offset = blob->offset, .length = blob->length, .plain = blob->plain};
	uint32_t size = repo_place_size(&place);
	uint8_t *out;

	if ((uint64_t)place.offset + place.length > n || size > REPO_BLOB_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a blob does not fit into it");
	out = repo_codec_plain_room(codec, size);
	if (!out)
		return cairn_err_nomem(err, "a blob");
	return repo_blob_open(codec, &blob->id, &place, data + place.offset, out, err);
}

static void repo_check_data_tell_unreadable(struct repo_checking *checking, uint32_t pack,
					    const struct unreadable *unreadable, size_t count)
{
	char text[CAIRN_ERR_TEXT_MAX + 64];

	if (unreadable->n == 0)
		return;
	snprintf(text, sizeof(text), "%zu of its %zu blobs cannot be read: %s", unreadable->n,
		 count, unreadable->first.msg);
	repo_check_data_tell(checking, pack, text);
}

/* Opens every blob that the index names in the pack. Overwrites `data`. */
static int check_blobs(struct repo_checking *checking, uint32_t pack, uint8_t *data, size_t n,
		       struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	struct unreadable unreadable = {0};
	struct repo_codec *codec = NULL;
	size_t count;
	int rc = repo_check_blobs_of(checking, pack, &blobs, &count, err);

	if (rc == 0)
		rc = repo_codec_get(&checking->repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct cairn_err why = {0};

		rc = check_blob(codec, &blobs[i], data, n, &why);
		if (rc == CAIRN_DATA_LOSS) {
			repo_check_mark_blob(checking, pack, i);
			if (unreadable.n++ == 0)
				unreadable.first = why;
			rc = 0;
		} else if (rc < 0) {
			rc = cairn_err_set(err, rc, "%s", why.msg);
		}
	}
	repo_codec_put(&checking->repo->codecs, codec);
	if (rc == 0)
		repo_check_data_tell_unreadable(checking, pack, &unreadable, count);
	return rc;
}

/* A wrong size was already reported. */
static int check_damaged(struct repo_checking *checking, uint32_t pack, const uint8_t *data,
			 size_t n, struct cairn_err *err)
{
	if (checking->bad_packs[pack])
		return 0;
	repo_check_data_tell(checking, pack, "its bytes do not hash to its name");
	return repo_check_data_check_header(checking, pack, data, n, err);
}

static int check_bytes(struct repo_checking *checking, uint32_t pack, const struct repo_id *id,
		       uint8_t *data, size_t n, struct cairn_err *err)
{
	struct repo_id got;
	int rc;

	if (!repo_id_of(data, n, &got))
		return cairn_err_nomem(err, "a hash");
	if (repo_id_equal(&got, id))
		rc = repo_check_data_check_header(checking, pack, data, n, err);
	else
		rc = check_damaged(checking, pack, data, n, err);
	return rc < 0 ? rc : check_blobs(checking, pack, data, n, err);
}

static bool repo_check_data_wanted(const struct repo_checking *checking, uint32_t pack)
{
	if (checking->chosen && !checking->chosen[pack])
		return false;
	if (!checking->options->snapshot)
		return true;
	for (uint32_t i = checking->order.starts[pack]; i < checking->order.starts[pack + 1]; i++)
		if (repo_walk_marked(&checking->walk, checking->order.order[i]))
			return true;
	return false;
}

static void repo_check_data_count(struct repo_checking *checking, uint64_t bytes)
{
	const struct repo_check_options *options = checking->options;

	pthread_mutex_lock(&checking->mutex);
	checking->stats.bytes_read += bytes;
	if (options->progress)
		options->progress(options->arg, REPO_CHECK_DATA, checking->stats.bytes_read,
				  checking->bytes_total);
	pthread_mutex_unlock(&checking->mutex);
}

/* The file of a pack that is to be read; NULL if the pack is missing or not indexed. */
static const struct repo_named *file_of(const struct repo_checking *checking, uint32_t pack,
					struct repo_id *ret_id)
{
	if (repo_index_pack_at(checking->repo->index, pack, ret_id) != REPO_PACK_INDEXED)
		return NULL;
	return repo_names_find(&checking->packs, ret_id);
}

/* All blobs of a file that is listed but cannot be read count as lost. The failure may be
 * temporary, so a repair does not touch the file. */
static int mark_unread(struct repo_checking *checking, uint32_t pack, int rc,
		       const struct cairn_err *why, struct cairn_err *err)
{
	uint32_t n = checking->order.starts[pack + 1] - checking->order.starts[pack];

	rc = repo_check_result(checking, rc, why, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++)
		repo_check_mark_blob(checking, pack, i);
	return 0;
}

/* A repair deletes damaged packs, so it reads them a second time: the data may have
 * been damaged in transit. */
static int read_pack(struct repo_checking *checking, const struct repo_id *id, uint8_t *data,
		     size_t n, struct cairn_err *err)
{
	struct repo_id got;
	int rc = repo_read(checking->repo, id, 0, data, n, err);

	if (rc < 0 || !checking->options->repair)
		return rc;
	if (!repo_id_of(data, n, &got))
		return cairn_err_nomem(err, "a hash");
	return repo_id_equal(&got, id) ? 0 : repo_read(checking->repo, id, 0, data, n, err);
}

/* A missing pack was already reported. */
int repo_check_pack_data(struct repo_checking *checking, uint32_t pack, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err why = {0};
	struct repo_id id;
	const struct repo_named *file = file_of(checking, pack, &id);
	int rc;

	if (!file)
		return 0;
	if (file->size > UINT32_MAX) {
		repo_check_data_tell(checking, pack, "it is too large");
		return 0;
	}
	data = cairn_alloc((size_t)file->size);
	if (!data)
		return cairn_err_nomem(err, "a pack");
	rc = read_pack(checking, &id, data, (size_t)file->size, &why);
	if (rc < 0)
		return mark_unread(checking, pack, rc, &why, err);
	repo_check_data_count(checking, file->size);
	return check_bytes(checking, pack, &id, data, (size_t)file->size, err);
}

static int check_one(void *arg, size_t i, struct cairn_err *err)
{
	struct repo_checking *checking = arg;
	int rc = repo_go_on(checking->repo, err);

	if (rc < 0 || !repo_check_data_wanted(checking, (uint32_t)i))
		return rc;
	return repo_check_pack_data(checking, (uint32_t)i, err);
}

int repo_check_data(struct repo_checking *checking, struct cairn_err *err)
{
	unsigned threads = checking->repo->store->connections;
	int rc = repo_check_choose(checking, err);

	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < checking->order.packs; i++) {
		struct repo_id id;
		const struct repo_named *file =
			repo_check_data_wanted(checking, i) ? file_of(checking, i, &id) : NULL;

		checking->bytes_total += file ? file->size : 0;
	}
	return cairn_parallel_each(checking->order.packs,
				   threads < READERS_MAX ? threads : READERS_MAX, check_one,
				   checking, err);
}
