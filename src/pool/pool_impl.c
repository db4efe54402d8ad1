/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/text.h"
#include "block/set.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/locks.h"
#include "pool/lost_record.h"

#define SLOT_POOL      0ULL
#define SLOT_VOLUME    (1ULL << 60)
#define SLOT_SET       (1ULL << 61)
#define SLOT_MERGE     (1ULL << 62)
#define SLOT_MASK      (SLOT_VOLUME - 1)
#define SLOT_TEMPORARY (SLOT_VOLUME | SLOT_SET)

int pool_impl_lock_pool(int dir_fd, bool exclusive, uint64_t wait_ms, int *ret_fd,
			struct cairn_err *err)
{
	for (int try = 0; try < POOL_COMMIT_TRIES; try++) {
		cairn_auto_fd int fd = -1;
		struct stat held, named;
		int rc = cairn_file_lock(dir_fd, POOL_LOCK_NAME, SLOT_POOL, exclusive, wait_ms, &fd,
					 err);

		if (rc)
			return rc;
		if (fstat(fd, &held) < 0)
			return cairn_err_sys(err, errno, "stat the pool's lock");
		if (fstatat(dir_fd, POOL_LOCK_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		    held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
			*ret_fd = cairn_take_fd(&fd);
			return 0;
		}
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "the pool's lock is made and removed all the time");
}

int pool_impl_lock_volume(struct pool *pool, uint64_t volume, uint64_t wait_ms, int *ret_fd,
			  struct cairn_err *err)
{
	/* Two volumes that share a slot only wait for each other. */
	return pool_locks_take(pool->locks, SLOT_VOLUME | (volume & SLOT_MASK), wait_ms, ret_fd,
			       err);
}

int pool_impl_lock_set(struct pool *pool, uint64_t number, uint64_t wait_ms, int *ret_fd,
		       struct cairn_err *err)
{
	return pool_locks_take(pool->locks, SLOT_SET | (number & SLOT_MASK), wait_ms, ret_fd, err);
}

int pool_impl_lock_merge(struct pool *pool, uint64_t number, int *ret_fd, struct cairn_err *err)
{
	return pool_locks_take(pool->locks, SLOT_MERGE | (number & SLOT_MASK), 0, ret_fd, err);
}

int pool_impl_lock_temporary(struct pool *pool, uint64_t number, int *ret_fd, struct cairn_err *err)
{
	return pool_locks_take(pool->locks, SLOT_TEMPORARY | (number & HANDLE_TEMPORARY_MASK), 0,
			       ret_fd, err);
}

int pool_impl_has_shut_down(const struct pool *pool, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "the filesystem of the image of pool '%s' has shut down after an "
			     "error, and is in use; it is mounted again when no volume is attached "
			     "and no other process has the pool open",
			     pool->dir);
}

int pool_impl_check_writable(struct pool *pool, struct cairn_err *err)
{
	struct cairn_err none = {0};

	if (pool->read_only_fs && pool_has_stopped(pool, &none))
		return pool_impl_has_shut_down(pool, err);
	if (pool->read_only)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the pool '%s' is read-only",
				     pool->dir);
	return 0;
}

int pool_name_check(const char *what, const char *name, struct cairn_err *err)
{
	size_t n = name ? strlen(name) : 0;
	uint64_t a;
	uint64_t b;

	if (n == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the name of a %s must not be empty",
				     what);
	if (n > POOL_NAME_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the name of a %s must not have more than %u bytes, this has "
				     "%zu",
				     what, POOL_NAME_MAX, n);
	if (!cairn_text_printable(name, n))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the name of a %s must be UTF-8 without control characters",
				     what);
	if (pool_ids_parse_volume(name, &a) || pool_ids_parse_snapshot(name, &a, &b))
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' has the form of an id, not of a name", name);
	return 0;
}

int pool_impl_check_size(uint64_t size, struct cairn_err *err)
{
	char text[CAIRN_SIZE_TEXT_MAX];

	if (size == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the size of a volume must not be 0");
	if (size > POOL_VOLUME_SIZE_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "a volume has at most %s",
				     cairn_format_size(POOL_VOLUME_SIZE_MAX, text));
	if (size % POOL_SECTOR != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the size of a volume must be a multiple of %u bytes",
				     POOL_SECTOR);
	return 0;
}

int pool_impl_check_granularity(uint32_t granularity, struct cairn_err *err)
{
	if (granularity < BLOCK_GRANULARITY_MIN || granularity > BLOCK_GRANULARITY_MAX ||
	    (granularity & (granularity - 1)) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the granularity must be a power of two from %u to %u",
				     BLOCK_GRANULARITY_MIN, BLOCK_GRANULARITY_MAX);
	return 0;
}

int pool_impl_data_size(struct pool *pool, struct store_ref ref, uint64_t recorded, uint64_t *ret,
			struct cairn_err *err)
{
	uint64_t size;
	int rc = pool_store_size(pool->store, ref, &size, err);

	if (rc)
		return rc;
	if (size < recorded)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the file of %s has %llu bytes, its record says %llu: it was "
				     "cut short, and its end is lost",
				     ref.id, (unsigned long long)size,
				     (unsigned long long)recorded);
	*ret = size;
	return 0;
}

static bool name_is_possible(const char *name)
{
	return name && pool_name_check("", name, NULL) == 0;
}

/* CAIRN_NOT_FOUND only where the volume has no data either. */
static int find_volume_by_id(struct pool *pool, uint64_t volume, struct record_volume *ret,
			     struct cairn_err *err)
{
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	int rc = pool_records_volume_get(pool->cat, volume, ret, err);
	int lost;

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	pool_ids_format_volume(volume, id);
	lost = pool_lost_record_check(pool, (struct store_ref){STORE_VOLUME, id}, &why);
	if (!lost)
		return CAIRN_NOT_FOUND;
	rc = pool_records_volume_get(pool->cat, volume, ret, err);
	if (rc == CAIRN_NOT_FOUND && err)
		*err = why;
	return rc == CAIRN_NOT_FOUND ? lost : rc;
}

int pool_impl_find_volume(struct pool *pool, const char *text, struct record_volume *ret,
			  struct cairn_err *err)
{
	int rc = CAIRN_NOT_FOUND;
	uint64_t volume;

	if (text && pool_ids_parse_volume(text, &volume))
		rc = find_volume_by_id(pool, volume, ret, err);
	else if (name_is_possible(text))
		rc = pool_records_volume_by_name(pool->cat, text, ret, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume '%s'",
				     text ? text : "");
	return rc;
}

/* "ID@NAME", which is unambiguous whatever the name contains. */
static int find_by_id_and_name(struct pool *pool, const char *text, struct record_snapshot *ret,
			       struct cairn_err *err)
{
	const char *at = strchr(text, '@');
	cairn_auto_free char *id = at ? cairn_strndup(text, (size_t)(at - text)) : NULL;
	uint64_t volume;

	if (!id || !pool_ids_parse_volume(id, &volume) || !name_is_possible(at + 1))
		return CAIRN_NOT_FOUND;
	return pool_records_snapshot_by_name(pool->cat, volume, at + 1, ret, err);
}

/* "VOLUME@NAME": names may contain an '@', so each one is tried as the
 * separator, the last one first. */
static int find_by_names(struct pool *pool, const char *text, struct record_snapshot *ret,
			 struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(text);
	int found = find_by_id_and_name(pool, text, ret, err);
	char *at;

	if (found != CAIRN_NOT_FOUND)
		return found;
	if (!copy)
		return cairn_err_nomem(err, "name");
	while ((at = strrchr(copy, '@'))) {
		const char *name = text + (at - copy) + 1;
		struct record_volume volume = {0};
		int rc;

		*at = '\0';
		if (!name_is_possible(name))
			continue;
		rc = pool_impl_find_volume(pool, copy, &volume, err);
		if (rc == 0)
			rc = pool_records_snapshot_by_name(pool->cat, volume.volume, name, ret,
							   err);
		if (rc != CAIRN_NOT_FOUND)
			return rc;
	}
	return CAIRN_NOT_FOUND;
}

static int get_snapshot_of(struct pool *pool, uint64_t volume, uint64_t number,
			   struct record_snapshot *ret, struct cairn_err *err)
{
	struct record_snapshot found;
	int rc = pool_records_snapshot_get(pool->cat, number, &found, err);

	if (rc == 0 && found.volume != volume)
		return CAIRN_NOT_FOUND;
	if (rc == 0)
		*ret = found;
	return rc;
}

/* CAIRN_NOT_FOUND only where the snapshot has no data either. */
static int find_by_id(struct pool *pool, uint64_t volume, uint64_t number,
		      struct record_snapshot *ret, struct cairn_err *err)
{
	struct cairn_err why = {0};
	char id[POOL_ID_MAX + 1];
	int rc = get_snapshot_of(pool, volume, number, ret, err);
	int lost;

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	pool_ids_format_snapshot(volume, number, id);
	lost = pool_lost_record_check(pool, (struct store_ref){STORE_SNAPSHOT, id}, &why);
	if (!lost)
		return CAIRN_NOT_FOUND;
	rc = get_snapshot_of(pool, volume, number, ret, err);
	if (rc == CAIRN_NOT_FOUND && err)
		*err = why;
	return rc == CAIRN_NOT_FOUND ? lost : rc;
}

int pool_impl_find_recorded_snapshot(struct pool *pool, const char *text,
				     struct record_snapshot *ret, struct cairn_err *err)
{
	uint64_t volume;
	uint64_t number;
	bool is_id = pool_ids_parse_snapshot(text, &volume, &number);
	int rc = is_id ? find_by_id(pool, volume, number, ret, err)
		       : find_by_names(pool, text, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	if (!strchr(text, '@') && !is_id)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "there is no snapshot '%s' (write VOLUME@SNAPSHOT or an id)",
				     text);
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no snapshot '%s'", text);
}

/* True if `text` is an id that was assigned, of a volume that has a record. */
static int was_assigned(struct pool *pool, const char *text, bool *ret, struct cairn_err *err)
{
	struct record_volume owner;
	uint64_t volume;
	uint64_t number;
	uint64_t last;
	int rc;

	*ret = false;
	if (!pool_ids_parse_snapshot(text, &volume, &number))
		return 0;
	rc = pool_records_last_number(pool->cat, &last, err);
	if (rc || number > last)
		return rc;
	rc = pool_records_volume_get(pool->cat, volume, &owner, err);
	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_impl_find_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
			    struct cairn_err *err)
{
	struct cairn_err why = {0};
	bool expired = false;
	int rc = pool_impl_find_recorded_snapshot(pool, text, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = was_assigned(pool, text, &expired, &why);
	if (rc) {
		if (err)
			*err = why;
		return rc;
	}
	if (expired)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "snapshot '%s' is past its retention time: what "
				     "changed since is not known any more, do a full backup",
				     text);
	return CAIRN_NOT_FOUND;
}

int pool_impl_find_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
				 struct cairn_err *err)
{
	int rc = pool_impl_find_snapshot(pool, text, ret, err);

	if (rc == 0 && ret->deleted)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot '%s' was deleted", text);
	return rc;
}

int pool_impl_find_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			       char id[POOL_ID_MAX + 1], struct cairn_err *err)
{
	int rc = pool_impl_find_volume(pool, text, ret, err);

	if (!rc && ret->deleted)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "volume '%s' was deleted", text);
	if (!rc)
		pool_ids_format_volume(ret->volume, id);
	return rc;
}

int pool_impl_check_restoring(const char *backup, struct cairn_err *err)
{
	size_t n = strlen(backup);

	if (n == 0 || n > POOL_RESTORING_MAX || !cairn_text_printable(backup, n))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the name of a restored backup has 1 to %u printable bytes",
				     POOL_RESTORING_MAX);
	return 0;
}

int pool_impl_check_whole(const struct record_volume *volume, struct cairn_err *err)
{
	if (!volume->restoring[0])
		return 0;
	return cairn_err_set(
		err, CAIRN_PRECONDITION,
		"volume '%s' holds an unfinished restore: finish it with 'cairn backup "
		"restore %.8s --to %s', or delete the volume",
		volume->name, volume->restoring, volume->name);
}

int pool_impl_lock_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			       char id[POOL_ID_MAX + 1], int *ret_fd, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	int rc = pool_impl_find_live_volume(pool, text, ret, id, err);

	if (!rc)
		rc = pool_impl_lock_volume(pool, ret->volume, pool->lock_wait_ms, &lock, err);
	if (rc)
		return rc;
	rc = pool_records_volume_get(pool->cat, ret->volume, ret, err);
	if (rc == CAIRN_NOT_FOUND || (!rc && ret->deleted))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "volume '%s' was deleted", text);
	if (!rc)
		*ret_fd = cairn_take_fd(&lock);
	return rc;
}

int pool_impl_lock_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
				 int *ret_fd, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	int rc = pool_impl_find_live_snapshot(pool, text, ret, err);

	if (!rc)
		rc = pool_impl_lock_volume(pool, ret->volume, pool->lock_wait_ms, &lock, err);
	if (rc)
		return rc;
	rc = pool_records_snapshot_get(pool->cat, ret->number, ret, err);
	if (rc == CAIRN_NOT_FOUND || (!rc && ret->deleted))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot '%s' was deleted", text);
	if (!rc)
		*ret_fd = cairn_take_fd(&lock);
	return rc;
}

int pool_impl_commit_volume(struct pool *pool, const struct record_volume *old,
			    const struct record_volume *now, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(pool->cat, &batch, err);

	if (rc)
		return rc;
	pool_records_volume_change(batch, old, now);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

uint64_t pool_impl_retention_ms(const struct pool *pool, const struct record_volume *volume)
{
	return volume->retention_ms ? volume->retention_ms : pool->marker.retention_ms;
}

uint32_t pool_impl_granularity(const struct pool *pool, const struct record_volume *volume)
{
	return volume->granularity ? volume->granularity : pool->marker.granularity;
}

uint64_t pool_impl_expiry_ns(const struct pool *pool, const struct record_volume *volume)
{
	uint64_t when;

	if (__builtin_mul_overflow(pool_impl_retention_ms(pool, volume), CAIRN_NS_PER_MS, &when) ||
	    __builtin_add_overflow(when, cairn_now_ns(), &when))
		return UINT64_MAX;
	return when;
}

void pool_impl_fill_volume(const struct pool *pool, const struct record_volume *record,
			   struct pool_volume *ret)
{
	*ret = (struct pool_volume){
		.size = record->size,
		.created_ns = record->created_ns,
		.deleted = record->deleted,
		.retention_ms = pool_impl_retention_ms(pool, record),
		.granularity = pool_impl_granularity(pool, record),
	};
	pool_ids_format_volume(record->volume, ret->id);
	memcpy(ret->name, record->name, sizeof(ret->name));
	memcpy(ret->restoring, record->restoring, sizeof(ret->restoring));
	if (record->origin)
		pool_ids_format_snapshot(record->origin_volume, record->origin, ret->origin);
}

void pool_impl_fill_snapshot_of(const struct record_volume *volume,
				const struct record_snapshot *record, struct pool_snapshot *ret)
{
	*ret = (struct pool_snapshot){
		.size = record->size,
		.created_ns = record->created_ns,
		.deleted = record->deleted,
		.expires_ns = record->expires_ns,
		.set = record->set,
		.set_extents = record->set_extents,
		.set_changed_bytes = record->set_changed_bytes,
		.set_zero_bytes = record->set_zero_bytes,
	};
	pool_ids_format_snapshot(record->volume, record->number, ret->id);
	pool_ids_format_volume(record->volume, ret->volume_id);
	memcpy(ret->name, record->name, sizeof(ret->name));
	memcpy(ret->volume_name, volume->name, sizeof(ret->volume_name));
	if (record->parent)
		pool_ids_format_snapshot(record->parent_volume, record->parent, ret->parent);
}

int pool_impl_volume_of_snapshot(struct pool *pool, const struct record_snapshot *record,
				 struct record_volume *ret, struct cairn_err *err)
{
	struct record_snapshot again;
	int rc = pool_records_volume_get(pool->cat, record->volume, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc ? cairn_err_wrap(err, "volume of snapshot %llu",
					   (unsigned long long)record->number)
			  : 0;
	/* The last snapshot of a deleted volume expires together with its volume. */
	rc = pool_records_snapshot_get(pool->cat, record->number, &again, err);
	return rc ? rc
		  : cairn_err_set(err, CAIRN_DATA_LOSS,
				  "the volume of snapshot %llu has no record; run: cairn pool "
				  "check",
				  (unsigned long long)record->number);
}

int pool_impl_fill_snapshot(struct pool *pool, const struct record_snapshot *record,
			    struct pool_snapshot *ret, struct cairn_err *err)
{
	struct record_volume volume;
	int rc = pool_impl_volume_of_snapshot(pool, record, &volume, err);

	if (rc)
		return rc;
	pool_impl_fill_snapshot_of(&volume, record, ret);
	return 0;
}
