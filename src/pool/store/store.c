/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/store.h"

#include <string.h>

#include "base/err.h"
#include "pool/btrfs/btrfs.h"
#include "pool/copy/copy.h"
#include "pool/reflink/reflink.h"

static const struct {
	const char *name;
	int (*open)(const char *dir, bool writable, struct store **ret, struct cairn_err *err);
	int (*probe)(const char *dir, struct cairn_err *err); /* may be NULL */
} backends[] = {
	{"btrfs", btrfs_store_open, NULL},
	{"reflink", reflink_store_open, reflink_store_probe},
	{"copy", copy_store_open, NULL},
};

static int open_backend(const char *backend, const char *dir, bool writable, bool probe,
			struct store **ret, struct cairn_err *err)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
		int rc = 0;

		if (strcmp(backends[i].name, backend) != 0)
			continue;
		if (probe && backends[i].probe)
			rc = backends[i].probe(dir, err);
		return rc ? rc : backends[i].open(dir, writable, ret, err);
	}
	return cairn_err_set(err, CAIRN_INVALID,
			     "unknown back end '%s'; there are btrfs, reflink and copy", backend);
}

int pool_store_open(const char *backend, const char *dir, bool writable, struct store **ret,
		    struct cairn_err *err)
{
	return open_backend(backend, dir, writable, false, ret, err);
}

int pool_store_make(const char *backend, const char *dir, struct store **ret, struct cairn_err *err)
{
	return open_backend(backend, dir, true, true, ret, err);
}

void pool_store_close(struct store *store)
{
	if (store)
		store->ops->close(store);
}

const char *pool_store_backend(const struct store *store)
{
	return store->ops->name;
}

/* Ids become file names, so no character with a meaning in paths is allowed. */
static int check_id(const char *id, struct cairn_err *err)
{
	size_t n = id ? strnlen(id, STORE_ID_MAX + 1) : 0;

	if (n == 0 || n > STORE_ID_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "an id has 1 to %u characters",
				     STORE_ID_MAX);
	for (size_t i = 0; i < n; i++) {
		bool fits = (id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9') ||
			    id[i] == '-';

		if (!fits)
			return cairn_err_set(err, CAIRN_INVALID,
					     "an id has only a to z, 0 to 9 and '-'");
	}
	return 0;
}

static int check_ref(struct store_ref ref, struct cairn_err *err)
{
	if (ref.kind != STORE_VOLUME && ref.kind != STORE_SNAPSHOT)
		return cairn_err_set(err, CAIRN_INVALID, "unknown kind of object");
	return check_id(ref.id, err);
}

static int store_check_size(uint64_t size, struct cairn_err *err)
{
	if (size == 0)
		return cairn_err_set(err, CAIRN_INVALID, "a volume cannot have 0 bytes");
	if (size > STORE_SIZE_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "a volume has at most %llu bytes",
				     STORE_SIZE_MAX);
	return 0;
}

static int check_writable(const struct store *store, struct cairn_err *err)
{
	if (store->writable)
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION, "the store is open read-only");
}

static int store_missing(const struct store *store, const char *what, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "back end %s cannot %s", store->ops->name,
			     what);
}

int pool_store_volume_create(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	rc = rc ? rc : store_check_size(size, err);
	return rc ? rc : store->ops->volume_create(store, id, size, err);
}

/* A volume of `size` bytes from the first `length` of a snapshot. */
static int check_copy(const struct store *store, const char *id, const char *snapshot_id,
		      uint64_t length, uint64_t size, struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	rc = rc ? rc : check_id(snapshot_id, err);
	rc = rc ? rc : store_check_size(size, err);
	if (!rc && size < length)
		rc = cairn_err_set(err, CAIRN_RANGE, "the volume is smaller than the snapshot");
	return rc;
}

int pool_store_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			    uint64_t length, uint64_t size, struct cairn_err *err)
{
	int rc = check_copy(store, id, snapshot_id, length, size, err);

	return rc ? rc : store->ops->volume_clone(store, id, snapshot_id, length, size, err);
}

int pool_store_volume_adopt(struct store *store, const char *id, const char *image,
			    uint64_t *ret_size, struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	if (!rc && !store->ops->volume_adopt)
		rc = cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				   "only a pool on Ceph has images that can be adopted");
	return rc ? rc : store->ops->volume_adopt(store, id, image, ret_size, err);
}

int pool_store_volume_disown(struct store *store, const char *id, const char *image,
			     struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	return rc ? rc : store->ops->volume_disown(store, id, image, err);
}

int pool_store_volume_resize(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	rc = rc ? rc : store_check_size(size, err);
	return rc ? rc : store->ops->volume_resize(store, id, size, err);
}

int pool_store_volume_replace(struct store *store, const struct store_replacement *spec,
			      struct cairn_err *err)
{
	int rc = check_copy(store, spec->id, spec->snapshot_id, spec->length, spec->size, err);

	return rc ? rc : store->ops->volume_replace(store, spec, err);
}

int pool_store_volume_sweep(struct store *store, const char *id, struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(id, err);
	return rc ? rc : store->ops->volume_sweep(store, id, err);
}

int pool_store_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			    uint64_t size, struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(volume_id, err);
	rc = rc ? rc : check_id(snapshot_id, err);
	rc = rc ? rc : store_check_size(size, err);
	return rc ? rc : store->ops->snapshot_cut(store, volume_id, snapshot_id, size, err);
}

int pool_store_snapshot_prepare(struct store *store, const char *volume_id, const char *snapshot_id,
				struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_id(volume_id, err);
	rc = rc ? rc : check_id(snapshot_id, err);
	if (rc || !store->ops->snapshot_prepare)
		return rc;
	return store->ops->snapshot_prepare(store, volume_id, snapshot_id, err);
}

int pool_store_delta(struct store *store, const char *base_id, const char *target_id,
		     struct block_sink sink, const struct store_progress *progress,
		     struct store_delta_stats *ret_stats, struct cairn_err *err)
{
	struct store_delta_stats stats = {.method = "none"};
	int rc = check_id(base_id, err);

	rc = rc ? rc : check_id(target_id, err);
	rc = rc ? rc : store->ops->delta(store, base_id, target_id, sink, progress, &stats, err);
	if (rc == 0 && ret_stats)
		*ret_stats = stats;
	return rc;
}

int pool_store_allocated(struct store *store, struct store_ref ref, uint64_t start,
			 struct block_extent *out, size_t max, size_t *ret_n, struct cairn_err *err)
{
	int rc = check_ref(ref, err);

	if (rc)
		return rc;
	if (max == 0)
		return cairn_err_set(err, CAIRN_INVALID, "no room for any range");
	if (start > STORE_SIZE_MAX) {
		*ret_n = 0;
		return 0;
	}
	return store->ops->allocated(store, ref, start, out, max, ret_n, err);
}

int pool_store_size(struct store *store, struct store_ref ref, uint64_t *ret_size,
		    struct cairn_err *err)
{
	int rc = check_ref(ref, err);

	return rc ? rc : store->ops->size(store, ref, ret_size, err);
}

int pool_store_usage_get(struct store *store, struct store_usage *ret, struct cairn_err *err)
{
	return store->ops->usage(store, ret, err);
}

int pool_store_list(struct store *store, enum store_kind kind,
		    int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		    struct cairn_err *err)
{
	return store->ops->list(store, kind, fn, arg, err);
}

/* An operation that changes one object. */
static int change_object(struct store *store, struct store_ref ref,
			 int (*op)(struct store *store, struct store_ref ref,
				   struct cairn_err *err),
			 struct cairn_err *err)
{
	int rc = check_writable(store, err);

	rc = rc ? rc : check_ref(ref, err);
	return rc ? rc : op(store, ref, err);
}

int pool_store_remove(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	return change_object(store, ref, store->ops->remove, err);
}

int pool_store_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	return change_object(store, ref, store->ops->set_aside, err);
}

int pool_store_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	return change_object(store, ref, store->ops->bring_back, err);
}

int pool_store_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	return change_object(store, ref, store->ops->drop_aside, err);
}

int pool_store_list_aside(struct store *store, enum store_kind kind,
			  int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			  struct cairn_err *err)
{
	return store->ops->list_aside(store, kind, fn, arg, err);
}

int pool_store_path(struct store *store, struct store_ref ref, char **ret_path,
		    struct cairn_err *err)
{
	int rc = check_ref(ref, err);

	if (rc)
		return rc;
	if (!store->ops->path)
		return store_missing(store, "name a file", err);
	return store->ops->path(store, ref, ret_path, err);
}

int pool_store_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			   struct cairn_err *err)
{
	int rc = check_ref(ref, err);

	return rc ? rc : store->ops->reader_open(store, ref, ret, err);
}

int pool_store_reader_read(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
			   size_t *ret_n, struct cairn_err *err)
{
	if (offset > STORE_SIZE_MAX) {
		*ret_n = 0;
		return 0;
	}
	return reader->ops->read(reader, offset, buf, n, ret_n, err);
}

void pool_store_reader_ahead(struct store_reader *reader, uint64_t offset, uint64_t n)
{
	if (reader->ops->ahead && offset <= STORE_SIZE_MAX && n <= STORE_SIZE_MAX)
		reader->ops->ahead(reader, offset, n);
}

void pool_store_reader_free(struct store_reader *reader)
{
	if (reader)
		reader->ops->free(reader);
}
