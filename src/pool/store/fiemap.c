/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/fiemap.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include <linux/fiemap.h>
#include <linux/fs.h>

#include "base/err.h"
#include "base/mem.h"

#define BATCH 512U

/* Flags with which an address does not identify the bytes. */
#define PLACE_UNSURE                                                                            \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |               \
	 FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE | \
	 FIEMAP_EXTENT_DATA_TAIL)

struct fiemap_source {
	struct mapping_source source;
	int fd;
	bool first;
	bool last; /* the extent marked as the file's last was delivered */
	uint64_t at;
	struct fiemap *map;
};

static enum mapping_kind fiemap_kind_of(uint32_t flags)
{
	/* Delayed writes are also shown as unwritten extents. */
	if (flags & PLACE_UNSURE)
		return MAPPING_OPAQUE;
	return flags & FIEMAP_EXTENT_UNWRITTEN ? MAPPING_ZERO : MAPPING_DATA;
}

/* Converts one extent; the part before `at` was already delivered. False when
 * no part of it is new. */
static bool fiemap_take(struct fiemap_source *f, const struct fiemap_extent *extent,
			struct mapping *out)
{
	uint64_t end = extent->fe_logical + extent->fe_length;

	if (end < extent->fe_logical)
		end = UINT64_MAX;
	if (extent->fe_flags & FIEMAP_EXTENT_LAST)
		f->last = true;
	if (end <= f->at)
		return false;
	*out = (struct mapping){
		.offset = extent->fe_logical,
		.length = end - extent->fe_logical,
		.inner = extent->fe_physical,
		.kind = fiemap_kind_of(extent->fe_flags),
	};
	if (out->offset < f->at) {
		out->inner += f->at - out->offset;
		out->length = end - f->at;
		out->offset = f->at;
	}
	f->at = end;
	return true;
}

static int fiemap_next(struct mapping_source *source, struct mapping *out, size_t max,
		       size_t *ret_n, struct cairn_err *err)
{
	struct fiemap_source *f = (struct fiemap_source *)source;
	size_t n = 0;

	while (n == 0 && !f->last && f->at < INT64_MAX) {
		f->map->fm_start = f->at;
		f->map->fm_length = FIEMAP_MAX_OFFSET - f->at;
		f->map->fm_flags = f->first ? FIEMAP_FLAG_SYNC : 0;
		f->map->fm_extent_count = max < BATCH ? (uint32_t)max : BATCH;
		f->map->fm_mapped_extents = 0;
		if (ioctl(f->fd, FS_IOC_FIEMAP, f->map) < 0) {
			if (errno == EINTR)
				continue;
			return cairn_err_sys(err, errno, "extent map");
		}
		f->first = false;
		if (f->map->fm_mapped_extents == 0)
			break;
		for (uint32_t i = 0; i < f->map->fm_mapped_extents; i++)
			n += fiemap_take(f, &f->map->fm_extents[i], &out[n]);
	}
	*ret_n = n;
	return 0;
}

int pool_fiemap_source_new(int fd, uint64_t start, struct mapping_source **ret,
			   struct cairn_err *err)
{
	struct fiemap_source *f = cairn_calloc(1, sizeof(*f));

	if (f)
		f->map = cairn_calloc(1, sizeof(*f->map) + BATCH * sizeof(f->map->fm_extents[0]));
	if (!f || !f->map) {
		free(f);
		return cairn_err_nomem(err, "extent map");
	}
	f->source.next = fiemap_next;
	f->fd = fd;
	f->first = true;
	f->at = start;
	*ret = &f->source;
	return 0;
}

void pool_fiemap_source_seek(struct mapping_source *source, uint64_t start)
{
	struct fiemap_source *f = (struct fiemap_source *)source;

	f->at = start;
	f->last = false;
}

void pool_fiemap_source_free(struct mapping_source *source)
{
	struct fiemap_source *f = (struct fiemap_source *)source;

	if (f)
		free(f->map);
	free(f);
}
