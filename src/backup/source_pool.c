/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/source.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "pool/store/store.h"

#define BATCH 1024

struct pool_source {
	struct backup_source base;
	struct pool *pool;
	const struct store_progress *progress;
	struct pool_snapshot snapshot;
};

static struct pool_source *source_pool_own(struct backup_source *source)
{
	return (struct pool_source *)source;
}

static void pool_source_close(struct backup_source *source)
{
	free(source_pool_own(source));
}

static int pool_source_reader(struct backup_source *source, struct store_reader **ret,
			      struct cairn_err *err)
{
	return pool_snapshot_reader(source_pool_own(source)->pool, source->snapshot_id, ret, err);
}

static int source_pool_list(struct pool_source *source, const char *base, struct block_sink sink,
			    struct cairn_err *err)
{
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct pool_delta_spec spec = {
		.base = base,
		.target = source->snapshot.id,
		.progress = source->progress,
	};
	struct block_extent batch[BATCH];
	size_t n = 0;
	int rc = pool_delta_open(source->pool, &spec, &delta, err);

	while (!rc) {
		rc = pool_delta_next(delta, batch, BATCH, &n, err);
		if (rc || n == 0)
			break;
		for (size_t i = 0; i < n && !rc; i++)
			rc = sink.emit(sink.arg, &batch[i], err);
	}
	return rc;
}

static int pool_source_changed(struct backup_source *source, const char *base,
			       struct block_sink sink, struct cairn_err *err)
{
	return source_pool_list(source_pool_own(source), base, sink, err);
}

static int pool_source_allocated(struct backup_source *source, struct block_sink sink,
				 struct cairn_err *err)
{
	return source_pool_list(source_pool_own(source), NULL, sink, err);
}

static int pool_source_lineage(struct backup_source *source,
			       int (*fn)(void *arg, const char *snapshot_id, uint64_t created_ns,
					 struct cairn_err *err),
			       void *arg, struct cairn_err *err)
{
	struct pool_snapshot at = source_pool_own(source)->snapshot;

	for (unsigned i = 0; i < BACKUP_LINEAGE_MAX; i++) {
		char parent[POOL_ID_MAX + 1];
		int rc = fn(arg, at.id, at.created_ns, err);

		if (rc)
			return rc < 0 ? rc : 0;
		if (!*at.parent)
			return 0;
		memcpy(parent, at.parent, sizeof(parent));
		if (pool_snapshot_get(source_pool_own(source)->pool, parent, &at, NULL))
			return 0; /* expired: it cannot be a base */
	}
	return 0;
}

static const struct backup_source_ops pool_source_ops = {
	.name = "pool",
	.close = pool_source_close,
	.reader_open = pool_source_reader,
	.changed = pool_source_changed,
	.allocated = pool_source_allocated,
	.lineage = pool_source_lineage,
};

int backup_source_pool(struct pool *pool, const char *snapshot,
		       const struct store_progress *progress, struct backup_source **ret,
		       struct cairn_err *err)
{
	cairn_auto_free struct pool_source *source = cairn_calloc(1, sizeof(*source));
	struct pool_volume volume = {0};
	int rc;

	if (!source)
		return cairn_err_nomem(err, "source");
	rc = pool_snapshot_get(pool, snapshot, &source->snapshot, err);
	if (rc)
		return rc;
	if (source->snapshot.deleted)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' is deleted: only what changed is still known of it",
				     snapshot);
	(void)pool_volume_get(pool, source->snapshot.volume_id, &volume, NULL);
	source->pool = pool;
	source->progress = progress;
	source->base = (struct backup_source){
		.ops = &pool_source_ops,
		.volume_id = source->snapshot.volume_id,
		.volume_name = source->snapshot.volume_name,
		.pool_id = pool_id(pool),
		.pool_dir = pool_directory(pool),
		.snapshot_id = source->snapshot.id,
		.snapshot_name = source->snapshot.name,
		.size = source->snapshot.size,
		.created_ns = source->snapshot.created_ns,
		.dated = true,
		.granularity = volume.granularity,
	};
	*ret = &cairn_take(source)->base;
	return 0;
}
