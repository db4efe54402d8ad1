/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/image.h"

#include <inttypes.h>
#include <string.h>

#include "backup/content.h"
#include "backup/record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/snapshot.h"
#include "repo/tree.h"

void image_done(struct image *image)
{
	chunk_map_done(&image->map);
	metadata_done(&image->metadata);
}

/* Collects the bytes of a small file. */
struct small {
	struct repo *repo;
	struct cairn_buf bytes;
};

static int add_blobs(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct small *small = arg;

	for (size_t i = 0; i < n; i++) {
		cairn_auto_free uint8_t *data = NULL;
		size_t len;
		int rc = repo_blob_get(small->repo, REPO_BLOB_DATA, &ids[i], &data, &len, err);

		if (rc)
			return rc;
		cairn_buf_add(&small->bytes, data, len);
		if (cairn_buf_failed(&small->bytes))
			return cairn_err_set(err, CAIRN_RANGE, "the metadata file is too large");
	}
	return 0;
}

static int read_metadata(struct repo *repo, const struct repo_id *tree, struct metadata *ret,
			 struct cairn_err *err)
{
	struct small small = {.repo = repo, .bytes = CAIRN_BUF_INIT(METADATA_MAX)};
	int rc = repo_tree_read_content(repo, tree, BACKUP_METADATA_NAME, add_blobs, &small, err);

	if (!rc)
		rc = metadata_parse((const char *)small.bytes.data, small.bytes.len, ret, err);
	cairn_buf_done(&small.bytes);
	return rc;
}

int image_open(struct repo *repo, const struct repo_snapshot *snapshot, const char *path,
	       struct zeros *zeros, struct image *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	struct backup_record record = backup_record_of(snapshot);
	cairn_cleanup(image_done) struct image image = {0};
	cairn_auto_free char *own = NULL;
	int rc;

	if (!path && !record.ours)
		return cairn_err_set(err, CAIRN_INVALID,
				     "this snapshot is not one of Cairn's: name a file in it");
	own = path ? cairn_strdup(path) : cairn_printf("%s/" BACKUP_IMAGE_NAME, record.path);
	if (!own)
		return cairn_err_nomem(err, "image");
	rc = repo_tree_find(repo, &snapshot->tree, own, &found, err);
	if (rc)
		return rc;
	if (found.node.type != REPO_NODE_FILE)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is no regular file", own);
	image.size = found.node.size;
	rc = content_load(repo, &found.tree, found.node.name, zeros, &image.map, err);
	if (!rc && !path)
		rc = read_metadata(repo, &found.tree, &image.metadata, err);
	if (rc)
		return cairn_err_wrap(err, "'%s'", own);
	*ret = image;
	memset(&image, 0, sizeof(image)); /* it is the caller's now */
	return 0;
}

int image_check(const struct image *image, struct cairn_err *err)
{
	if (image->map.size != image->size)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "its chunks are %" PRIu64 " bytes, its size is %" PRIu64,
				     image->map.size, image->size);
	if (!image->metadata.snapshot_id || !image->metadata.volume_id ||
	    image->metadata.size != image->size)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "its metadata does not fit it");
	return 0;
}
