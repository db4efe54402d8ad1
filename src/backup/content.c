/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/content.h"

#include <string.h>

#include "backup/zeros.h"
#include "base/err.h"
#include "pool/pool.h"
#include "repo/blob.h"
#include "repo/tree.h"

_Static_assert(sizeof(struct repo_id) == CHUNK_ID_BYTES, "a chunk's id is a blob's");

static int add_one(struct zeros *zeros, struct chunk_map *map, const struct repo_id *id,
		   uint64_t length, bool lost, struct cairn_err *err)
{
	const struct repo_id *zero = backup_zeros_id(zeros, length);
	enum chunk_kind kind = lost ? CHUNK_LOST : CHUNK_KEPT;
	int rc;

	if (zero && repo_id_equal(zero, id))
		kind = CHUNK_ZERO;
	rc = backup_chunk_map_add(map, kind, id->bytes, length, err);
	if (!rc && lost && kind == CHUNK_ZERO)
		map->lost_zeros += length;
	return rc;
}

int backup_content_add_known(struct zeros *zeros, struct chunk_map *map, const struct repo_id *ids,
			     const uint32_t *lengths, size_t n, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = add_one(zeros, map, &ids[i], lengths[i], false, err);
	return rc;
}

int backup_content_add(struct repo *repo, struct zeros *zeros, struct chunk_map *map,
		       const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t length;
		bool lost;
		int rc = repo_blob_size(repo, REPO_BLOB_DATA, &ids[i], &length, err);
		if (rc && !repo_blob_lost(repo, REPO_BLOB_DATA, &ids[i], &length))
			return rc;
		lost = rc != 0;
		if (length > UINT32_MAX)
			return cairn_err_set(err, CAIRN_RANGE, "a chunk is too long");
		rc = add_one(zeros, map, &ids[i], length, lost, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int save_zeros(struct repo *repo, uint64_t run, uint64_t longest, bool *sparse,
		      struct zeros *zeros, struct repo_tree_writer *writer, struct cairn_err *err)
{
	/* The last bytes of a file whose size is not a multiple of a sector are an ordinary chunk:
	 * ids of zeros are known only for whole sectors, and a chunk begins at a multiple of its
	 * size. */
	uint64_t odd = run % POOL_SECTOR ? run % CHUNK_DATA_MIN : 0;

	while (run > 0) {
		uint64_t length = run > odd ? backup_zeros_cut(run - odd, longest, sparse) : run;
		const struct repo_id *id = backup_zeros_id(zeros, length);
		struct repo_id put;
		int rc = 0;

		if (!id || !repo_blob_has(repo, REPO_BLOB_DATA, id)) {
			rc = repo_blob_put(repo, REPO_BLOB_DATA, backup_zeros_bytes(zeros), length,
					   &put, NULL, err);
			id = &put;
		}
		if (!rc)
			rc = repo_tree_writer_content(writer, id, 1, err);
		if (rc)
			return rc;
		run -= length;
	}
	return 0;
}

int backup_content_save(struct repo *repo, const struct content *content, struct zeros *zeros,
			struct repo_tree_writer *writer, struct cairn_err *err)
{
	const struct chunk *chunks = content->chunks;
	bool sparse = content->sparse;

	for (size_t i = 0; i < content->n; i++) {
		struct repo_id id;
		uint64_t run = 0;
		int rc;

		for (; i < content->n && chunks[i].kind == CHUNK_ZERO; i++)
			run += chunks[i].length;
		rc = save_zeros(repo, run, content->longest, &sparse, zeros, writer, err);
		if (rc || i == content->n)
			return rc;
		memcpy(id.bytes, chunks[i].id, sizeof(id.bytes));
		rc = repo_tree_writer_content_known(writer, &id, chunks[i].length, err);
		if (rc)
			return rc;
	}
	return 0;
}
