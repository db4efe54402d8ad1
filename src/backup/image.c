/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/image.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/content.h"
#include "backup/image_head.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "repo/blob.h"
#include "repo/repo_snapshot.h"
#include "repo/tree.h"

void backup_image_done(struct image *image)
{
	backup_chunk_map_done(&image->map);
	backup_segments_done(&image->segments);
	backup_metadata_done(&image->metadata);
}

/* State of reading an image's directory. It is read only once, because its list of chunks
 * is megabytes long. */
struct reading {
	struct repo *repo;
	struct zeros *zeros;
	const char *name; /* name of the image's file */
	bool ours;        /* the directory has metadata */
	bool found;
	enum repo_node_type type;
	bool in_image, in_metadata; /* the file whose content follows */
	bool has_metadata;
	struct repo_id parts; /* directory of segments */
	struct cairn_buf metadata;
	struct image image;
};

static void reading_done(struct reading *reading)
{
	cairn_buf_done(&reading->metadata);
	backup_image_done(&reading->image);
}

static int image_enter(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct reading *reading = arg;
	bool file = node->type == REPO_NODE_FILE;

	(void)err;
	reading->in_image = strcmp(node->name, reading->name) == 0;
	reading->in_metadata =
		reading->ours && file && strcmp(node->name, BACKUP_METADATA_NAME) == 0;
	reading->has_metadata |= reading->in_metadata;
	if (reading->ours && node->type == REPO_NODE_DIR &&
	    strcmp(node->name, BACKUP_PARTS_NAME) == 0) {
		reading->image.segmented = true;
		reading->parts = node->subtree;
	}
	if (!reading->in_image)
		return 0;
	reading->found = true;
	reading->type = node->type;
	reading->image.size = node->size;
	return 0;
}

/* Collects the bytes of a small file. */
static int add_blobs(struct reading *reading, const struct repo_id *ids, size_t n,
		     struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		cairn_auto_free uint8_t *data = NULL;
		size_t len;
		struct cairn_err why = {0};
		int rc = repo_blob_get(reading->repo, REPO_BLOB_DATA, &ids[i], &data, &len, &why);

		/* The image is still useful without its metadata. */
		if (rc == CAIRN_NOT_FOUND || rc == CAIRN_DATA_LOSS) {
			reading->image.metadata_lost = true;
			return 0;
		}
		if (rc)
			return cairn_err_set(err, rc, "%s", why.msg);
		cairn_buf_add(&reading->metadata, data, len);
		if (cairn_buf_failed(&reading->metadata))
			return cairn_err_set(err, CAIRN_RANGE, "the metadata file is too large");
	}
	return 0;
}

static int take_content(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct reading *reading = arg;

	if (reading->in_image)
		return backup_content_add(reading->repo, reading->zeros, &reading->image.map, ids,
					  n, err);
	return reading->in_metadata ? add_blobs(reading, ids, n, err) : 0;
}

/* Finds the tree of the directory that contains the file at `path`, and returns the name of
 * the file. Modifies `path`. */
static int find_directory(struct repo *repo, const struct repo_id *root, char *path,
			  const char **ret_name, struct repo_id *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	size_t n = strlen(path);
	char *slash;
	int rc;

	while (n > 0 && path[n - 1] == '/')
		path[--n] = '\0';
	slash = strrchr(path, '/');
	*ret_name = slash ? slash + 1 : path;
	*ret = *root;
	if (!slash || strspn(path, "/") == (size_t)(slash + 1 - path))
		return 0;
	*slash = '\0';
	rc = repo_tree_find(repo, root, path, &found, err);
	if (!rc && found.node.type != REPO_NODE_DIR)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "'%s' is not a directory", path);
	if (!rc)
		*ret = found.node.subtree;
	return rc;
}

static int check_file(const struct reading *reading, struct cairn_err *err)
{
	if (!reading->found)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "it is not in this snapshot");
	if (reading->type != REPO_NODE_FILE)
		return cairn_err_set(err, CAIRN_INVALID, "it is not a regular file");
	if (reading->image.map.size != reading->image.size)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "its chunks are %" PRIu64 " bytes, its size is %" PRIu64,
				     reading->image.map.size, reading->image.size);
	return 0;
}

static int open_segments(struct reading *reading, struct cairn_err *err)
{
	struct image *image = &reading->image;
	int rc;

	if (reading->found)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "it is there twice, once in segments");
	rc = backup_segments_open(reading->repo, &reading->parts, image->metadata.size,
				  image->metadata.segment, &image->segments, err);
	image->size = image->segments.size;
	return rc;
}

/* Turns the result of reading the directory into an image. */
static int image_finish(struct reading *reading, struct cairn_err *err)
{
	bool segmented = reading->image.segmented;
	int rc = segmented ? 0 : check_file(reading, err);

	if (rc)
		return rc;
	if (reading->ours && !reading->image.metadata_lost) {
		if (!reading->has_metadata)
			return cairn_err_set(err, CAIRN_NOT_FOUND,
					     "there is no file '%s' beside it",
					     BACKUP_METADATA_NAME);
		rc = backup_metadata_parse((const char *)reading->metadata.data,
					   reading->metadata.len, &reading->image.metadata, err);
	}
	return rc || !segmented ? rc : open_segments(reading, err);
}

static int read_image(struct reading *reading, const struct repo_id *directory,
		      struct cairn_err *err)
{
	const struct repo_tree_visitor visitor = {
		.node = image_enter, .content = take_content, .arg = reading};
	int rc = repo_tree_read(reading->repo, directory, &visitor, err);

	return rc ? rc : image_finish(reading, err);
}

static int refuse_lost(const struct chunk_map *map, struct cairn_err *err)
{
	char lost[CAIRN_SIZE_TEXT_MAX], size[CAIRN_SIZE_TEXT_MAX];
	uint64_t offset = 0;

	for (size_t i = 0; i < map->n && map->at[i].kind != CHUNK_LOST; i++)
		offset += map->at[i].length;
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%s of its %s are lost, the first at byte %" PRIu64
			     "; 'cairn backup verify' lists them",
			     cairn_format_size(map->lost, lost), cairn_format_size(map->size, size),
			     offset);
}

static int image_open_any(struct repo *repo, const struct repo_snapshot *snapshot, const char *path,
			  struct zeros *zeros, struct image *ret, struct cairn_err *err)
{
	cairn_cleanup(reading_done) struct reading reading = {.repo = repo,
							      .zeros = zeros,
							      .ours = !path,
							      .metadata =
								      CAIRN_BUF_INIT(METADATA_MAX)};
	struct backup_record record = backup_record_of(snapshot);
	cairn_auto_free char *own = NULL, *cut = NULL;
	struct repo_id directory;
	int rc;

	if (!path && !record.ours)
		return cairn_err_set(err, CAIRN_INVALID,
				     "this snapshot is not one of Cairn's: name a file in it");
	own = path ? cairn_strdup(path) : cairn_printf("%s/" BACKUP_IMAGE_NAME, record.path);
	cut = own ? cairn_strdup(own) : NULL;
	if (!cut)
		return cairn_err_nomem(err, "image");
	rc = find_directory(repo, &snapshot->tree, cut, &reading.name, &directory, err);
	if (!rc)
		rc = read_image(&reading, &directory, err);
	if (rc)
		return cairn_err_wrap(err, "'%s'", own);
	*ret = reading.image;
	memset(&reading.image, 0, sizeof(reading.image)); /* the caller owns it now */
	return 0;
}

static int image_append(void *arg, uint64_t number, const struct repo_id *leaf,
			const struct chunk_map *map, struct cairn_err *err)
{
	struct chunk_map *all = arg;
	int rc = 0;

	(void)number;
	(void)leaf;
	for (size_t i = 0; i < map->n && !rc; i++) {
		const struct chunk *chunk = &map->at[i];

		rc = backup_chunk_map_add(all, (enum chunk_kind)chunk->kind, chunk->id,
					  chunk->length, err);
	}
	return rc;
}

int backup_image_open(struct repo *repo, const struct repo_snapshot *snapshot, const char *path,
		      struct zeros *zeros, struct image *ret, struct cairn_err *err)
{
	cairn_cleanup(backup_image_done) struct image image = {0};
	int rc = image_open_any(repo, snapshot, path, zeros, &image, err);

	if (!rc && image.segmented)
		rc = backup_segments_walk(repo, zeros, &image.segments, image_append, &image.map,
					  err);
	if (!rc && image.map.lost > 0)
		rc = refuse_lost(&image.map, err);
	if (rc)
		return rc;
	*ret = image;
	memset(&image, 0, sizeof(image)); /* the caller owns it now */
	return 0;
}

int backup_image_open_parent(struct repo *repo, const struct repo_snapshot *snapshot,
			     struct zeros *zeros, struct image *ret, struct cairn_err *err)
{
	cairn_cleanup(reading_done) struct reading reading = {.repo = repo,
							      .zeros = zeros,
							      .ours = true,
							      .has_metadata = true,
							      .metadata =
								      CAIRN_BUF_INIT(METADATA_MAX)};
	cairn_auto_free void *bytes = NULL;
	struct image_head head;

	if (!backup_image_head_find(repo, &snapshot->tree, &head, &bytes))
		return image_open_any(repo, snapshot, NULL, zeros, ret, err);
	reading.image.segmented = true;
	reading.parts = head.parts;
	cairn_buf_add(&reading.metadata, head.metadata, head.n);
	if (image_finish(&reading, NULL) != 0) /* invalid cache: read the repository */
		return image_open_any(repo, snapshot, NULL, zeros, ret, err);
	*ret = reading.image;
	memset(&reading.image, 0, sizeof(reading.image)); /* the caller owns it now */
	return 0;
}

int backup_image_check(const struct image *image, struct cairn_err *err)
{
	if (image->metadata_lost)
		return 0;
	if (!image->metadata.snapshot_id || !image->metadata.volume_id ||
	    image->metadata.size != image->size)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "its metadata does not fit it");
	return 0;
}
