/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/write_snapshot.h"

#include <string.h>
#include <unistd.h>

#include "backup/backup_record.h"
#include "backup/content.h"
#include "backup/create.h"
#include "backup/image_head.h"
#include "backup/image_metadata.h"
#include "backup/plan.h"
#include "backup/segmented.h"
#include "backup/source.h"
#include "backup/tags.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/repo.h"
#include "repo/repo_snapshot.h"
#include "repo/tree.h"

/* Any inode numbers will do, but restic counts nodes with equal ones as one file. */
enum { INODE_DIR = 1, INODE_IMAGE, INODE_METADATA = 5, INODE_PARTS };

static struct repo_node write_snapshot_node_of(const struct save_spec *spec, const char *name,
					       uint64_t inode)
{
	int64_t time = (int64_t)spec->source->created_ns;

	return (struct repo_node){
		.name = name,
		.type = REPO_NODE_FILE,
		.mode = 0600,
		.mtime_ns = time,
		.atime_ns = time,
		.ctime_ns = time,
		.uid = getuid(),
		.gid = getgid(),
		.inode = inode,
		.links = 1,
	};
}

static int put_image(struct repo *repo, const struct save_spec *spec,
		     struct repo_tree_writer *writer, struct cairn_err *err)
{
	struct repo_node node = write_snapshot_node_of(spec, BACKUP_IMAGE_NAME, INODE_IMAGE);
	const struct chunk_map *map = &spec->plan->map;
	struct content content = {
		.chunks = map->at, .n = map->n, .longest = backup_zeros_longest(map->size)};
	int rc;

	node.size = map->size;
	rc = repo_tree_writer_file_begin(writer, &node, err);
	if (!rc)
		rc = backup_content_save(repo, &content, spec->zeros, writer, err);
	return rc ? rc : repo_tree_writer_file_end(writer, err);
}

static int make_metadata(const struct save_spec *spec, const struct backup_result *result,
			 char **ret, size_t *ret_n, struct cairn_err *err)
{
	const struct backup_source *source = spec->source;
	char parent[REPO_ID_TEXT_MAX];
	struct metadata metadata = {
		.volume_id = source->volume_id,
		.volume_name = source->volume_name,
		.snapshot_id = source->snapshot_id,
		.snapshot_name = source->snapshot_name,
		.snapshot_time_ns = source->created_ns,
		.size = source->size,
		.granularity = source->granularity,
		.mode = backup_mode_name(result->mode),
		.parent_snapshot_id = spec->parent_snapshot_id,
		.bytes_changed = result->bytes_changed,
		.chunk_base = spec->plan->base,
		.chunk_leaf = spec->plan->leaf,
		.merge_hand = spec->plan->hand,
		.kubernetes = source->kubernetes,
	};

	if (spec->segmented) {
		metadata.segment = spec->segment;
		metadata.chunk_n = spec->segmented->chunks;
		metadata.data_bytes = spec->segmented->data_bytes;
	}
	if (result->has_parent)
		metadata.parent_backup = repo_id_format(&result->parent, parent);
	return backup_metadata_write(&metadata, ret, ret_n, err);
}

static int put_metadata(struct repo *repo, const struct save_spec *spec,
			const struct image_head *head, struct repo_tree_writer *writer,
			struct cairn_err *err)
{
	struct repo_node node = write_snapshot_node_of(spec, BACKUP_METADATA_NAME, INODE_METADATA);
	struct repo_id id;
	int rc = repo_blob_put(repo, REPO_BLOB_DATA, head->metadata, head->n, &id, NULL, err);

	node.size = head->n;
	if (!rc)
		rc = repo_tree_writer_file_begin(writer, &node, err);
	if (!rc)
		rc = repo_tree_writer_content(writer, &id, 1, err);
	return rc ? rc : repo_tree_writer_file_end(writer, err);
}

static int put_parts(const struct save_spec *spec, struct repo_tree_writer *writer,
		     struct cairn_err *err)
{
	struct repo_node node = write_snapshot_node_of(spec, BACKUP_PARTS_NAME, INODE_PARTS);

	node.type = REPO_NODE_DIR;
	node.mode = 0700;
	node.links = 0;
	node.subtree = spec->segmented->top;
	return repo_tree_writer_add(writer, &node, err);
}

static int put_dir(struct repo *repo, const struct save_spec *spec, const struct image_head *head,
		   struct repo_id *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	int rc = repo_tree_writer_new(repo, &writer, err);

	if (!rc && !spec->segmented)
		rc = put_image(repo, spec, writer, err);
	if (!rc)
		rc = put_metadata(repo, spec, head, writer, err);
	if (!rc && spec->segmented)
		rc = put_parts(spec, writer, err);
	return rc ? rc : repo_tree_writer_finish(writer, ret, err);
}

static int put_root(struct repo *repo, const struct save_spec *spec, const char *path,
		    const struct repo_id *dir, struct repo_id *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repo_node node = write_snapshot_node_of(spec, path + 1, INODE_DIR);
	int rc = repo_tree_writer_new(repo, &writer, err);

	node.type = REPO_NODE_DIR;
	node.mode = 0700;
	node.links = 0;
	node.subtree = *dir;
	if (!rc)
		rc = repo_tree_writer_add(writer, &node, err);
	return rc ? rc : repo_tree_writer_finish(writer, ret, err);
}

static struct repo_summary write_snapshot_summarise(const struct save_spec *spec,
						    const struct backup_result *result)
{
	return (struct repo_summary){
		.given = true,
		.backup_start_ns = (int64_t)spec->begun_ns,
		.backup_end_ns = (int64_t)cairn_now_ns(),
		.files_new = result->has_parent ? 1 : 2,
		.files_changed = result->has_parent ? 1 : 0,
		.data_blobs = result->chunks_new,
		.tree_blobs = 2,
		.data_added = result->bytes_new,
		.data_added_packed = result->bytes_stored,
		.total_files_processed = 2,
		.total_bytes_processed = result->size,
	};
}

static int put_snapshot(struct repo *repo, const struct save_spec *spec, const char *path,
			const struct repo_id *root, struct backup_result *result,
			struct cairn_err *err)
{
	cairn_cleanup(backup_tags_done) struct backup_tags tags = {0};
	struct backup_record record = {
		.volume = spec->source->volume_name,
		.volume_id = spec->source->volume_id,
		.pool_id = spec->source->pool_id,
		.pool_dir = spec->source->pool_dir,
		.snapshot = spec->source->snapshot_name,
		.snapshot_id = spec->source->snapshot_id,
		.mode = backup_mode_name(result->mode),
		.bytes_read = result->bytes_read,
	};
	const char *paths[] = {path};
	const char *tag_list[BACKUP_TAGS + TAGS_MAX];
	const struct tags *given = spec->options->tags;
	size_t n_given = given ? given->n : 0;
	struct repo_snapshot snapshot = {
		.time_ns = (int64_t)spec->begun_ns,
		.tree = *root,
		.has_parent = result->has_parent,
		.parent = result->parent,
		.paths = paths,
		.n_paths = 1,
		.hostname = spec->options->hostname,
		.uid = getuid(),
		.gid = getgid(),
		.tags = tag_list,
		.program_version = spec->options->version,
		.summary = write_snapshot_summarise(spec, result),
	};
	int rc = backup_tags_make(&record, &tags, err);

	if (rc)
		return rc;
	snapshot.n_tags = tags.n + n_given;
	memcpy(tag_list, tags.at, tags.n * sizeof(tags.at[0]));
	for (size_t i = 0; i < n_given; i++)
		tag_list[tags.n + i] = given->at[i];
	return repo_snapshot_save(repo, &snapshot, &result->id, err);
}

int backup_write_snapshot(struct repo *repo, const struct save_spec *spec,
			  struct backup_result *result, struct cairn_err *err)
{
	cairn_auto_free char *path = backup_path_of(spec->source->volume_name);
	cairn_auto_free char *metadata = NULL;
	struct image_head head = {0};
	struct repo_stats stats;
	struct repo_id dir, root;
	int rc;

	if (!path)
		return cairn_err_nomem(err, "backup");
	rc = make_metadata(spec, result, &metadata, &head.n, err);
	head.metadata = metadata;
	if (!rc)
		rc = put_dir(repo, spec, &head, &dir, err);
	if (!rc)
		rc = put_root(repo, spec, path, &dir, &root, err);
	if (!rc)
		rc = repo_flush(repo, err);
	if (rc)
		return rc;
	repo_get_stats(repo, &stats);
	result->bytes_stored = stats.bytes_stored - spec->stored_before;
	rc = put_snapshot(repo, spec, path, &root, result, err);
	if (rc || !spec->segmented)
		return rc;
	head.parts = spec->segmented->top;
	backup_image_head_keep(repo, &root, spec->parent_tree, &head);
	return 0;
}
