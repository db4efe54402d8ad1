/* SPDX-License-Identifier: Apache-2.0 */

/* Reads all data of a pool to find unreadable parts. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

#define PIECE   (1U << 20) /* read at once */
#define EXTENTS 256U

struct data_reading {
	struct pool *pool;
	const struct pool_check_spec *spec;
	struct pool_data_result result;
	uint8_t *buffer;
};

struct object {
	struct store_ref ref;
	char text[2 * POOL_NAME_MAX + 32]; /* for people */
	struct store_reader *reader;
	uint64_t bad; /* bytes */
	uint64_t first;
};

static bool read_data_is_cancelled(const struct data_reading *reading)
{
	const struct store_progress *progress = reading->spec->progress;

	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

/* Only errors of a device or a checksum are faults of the data. */
static bool is_unreadable(int rc, const struct cairn_err *why)
{
	return rc == CAIRN_DATA_LOSS || (rc < 0 && why->sys_errno == EIO);
}

static int read_piece(struct data_reading *reading, struct object *object, uint64_t offset,
		      size_t n, struct cairn_err *err)
{
	struct cairn_err why = {0};
	size_t got = 0;
	int rc;

	if (read_data_is_cancelled(reading))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	rc = pool_store_reader_read(object->reader, offset, reading->buffer, n, &got, &why);
	if (is_unreadable(rc, &why)) {
		if (object->bad == 0)
			object->first = offset;
		object->bad += n;
		return 0;
	}
	reading->result.bytes += got;
	return rc < 0 ? cairn_err_set(err, rc, "%s: %s", object->text, why.msg) : 0;
}

static int read_extent(struct data_reading *reading, struct object *object,
		       const struct block_extent *extent, struct cairn_err *err)
{
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < extent->length; at += PIECE) {
		uint64_t left = extent->length - at;

		rc = read_piece(reading, object, extent->offset + at,
				left < PIECE ? (size_t)left : PIECE, err);
	}
	return rc;
}

static int read_extents(struct data_reading *reading, struct object *object, struct cairn_err *err)
{
	struct block_extent extents[EXTENTS];
	uint64_t start = 0;
	size_t n = EXTENTS;
	int rc = 0;

	while (rc == 0 && n == EXTENTS) {
		rc = pool_store_allocated(reading->pool->store, object->ref, start, extents,
					  EXTENTS, &n, err);
		for (size_t i = 0; rc == 0 && i < n; i++)
			rc = read_extent(reading, object, &extents[i], err);
		if (n > 0)
			start = extents[n - 1].offset + extents[n - 1].length;
	}
	return rc;
}

static void read_data_tell_unreadable(struct data_reading *reading, const struct object *object)
{
	char line[sizeof(object->text) + 160];

	snprintf(line, sizeof(line),
		 "%s: data cannot be read, in %" PRIu64
		 " bytes of reads, the first at byte %" PRIu64,
		 object->text, object->bad, object->first);
	reading->result.faults++;
	if (reading->spec->fault)
		reading->spec->fault(reading->spec->arg, POOL_FAULT_FOUND, line);
}

static int read_data_read_object(struct data_reading *reading, struct object *object,
				 struct cairn_err *err)
{
	int rc = pool_store_reader_open(reading->pool->store, object->ref, &object->reader, err);

	/* Deleted meanwhile; pool_check() reports a live one without data. */
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc == 0)
		rc = read_extents(reading, object, err);
	pool_store_reader_free(object->reader);
	if (rc == 0 && object->bad > 0)
		read_data_tell_unreadable(reading, object);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int read_volume(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	struct object object = {.ref = {STORE_VOLUME, volume->id}};

	if (volume->deleted)
		return 0;
	snprintf(object.text, sizeof(object.text), "volume '%s'", volume->name);
	return read_data_read_object(arg, &object, err);
}

static int read_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	struct object object = {.ref = {STORE_SNAPSHOT, snapshot->id}};

	snprintf(object.text, sizeof(object.text), "snapshot '%s@%s'", snapshot->volume_name,
		 snapshot->name);
	return read_data_read_object(arg, &object, err);
}

int pool_read_data(struct pool *pool, const struct pool_check_spec *spec,
		   struct pool_data_result *ret, struct cairn_err *err)
{
	cairn_auto_free uint8_t *buffer = cairn_alloc(PIECE);
	struct data_reading reading = {.pool = pool, .spec = spec, .buffer = buffer};
	struct pool_snapshot_list_spec live = {0};
	int rc;

	if (!buffer)
		return cairn_err_nomem(err, "a buffer");
	rc = pool_volume_list(pool, NULL, read_volume, &reading, err);
	if (rc == 0)
		rc = pool_snapshot_list(pool, &live, read_snapshot, &reading, err);
	if (rc == 0)
		*ret = reading.result;
	return rc;
}
