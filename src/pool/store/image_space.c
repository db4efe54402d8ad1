/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/image_space.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/mem.h"

#define SEARCH_BUFFER (64U << 10)
#define CHUNKS_MAX    (1U << 20) /* more than any filesystem has; stops a damaged one */
#define COPIES_MAX    2U         /* on one device */

/* A file of the catalogue has a few; those of a fragmented one are left out. */
#define FILE_EXTENTS_MAX 32U

/* The last bytes of a range are written last, and so show if it was allocated. */
#define TAIL 4096U

/* A range of addresses that btrfs gives to data or to metadata. */
struct chunk {
	uint64_t logical, length;
	bool metadata;
	unsigned n_copies;
	uint64_t copies[COPIES_MAX]; /* where it is on the device */
};

/* All of them; without one, the filesystem is not a btrfs, and its addresses are
 * those of the device. */
struct chunk_list {
	struct chunk *list;
	size_t n, room;
};

static void image_space_done(struct chunk_list *chunks)
{
	free(chunks->list);
}

/* ---- the chunks of a btrfs ------------------------------------------------ */

static bool image_space_decode(uint64_t logical, const uint8_t *item, size_t len, struct chunk *ret)
{
	const size_t stripes = offsetof(struct btrfs_chunk, stripe);
	struct btrfs_chunk fixed;
	struct btrfs_stripe stripe;

	if (len < sizeof(fixed))
		return false;
	memcpy(&fixed, item, sizeof(fixed));
	*ret = (struct chunk){
		.logical = logical,
		.length = le64toh(fixed.length),
		.metadata = (le64toh(fixed.type) &
			     (BTRFS_BLOCK_GROUP_METADATA | BTRFS_BLOCK_GROUP_SYSTEM)) != 0,
		.n_copies = le16toh(fixed.num_stripes),
	};
	if (ret->n_copies > COPIES_MAX || stripes + ret->n_copies * sizeof(stripe) > len)
		return false;
	for (unsigned i = 0; i < ret->n_copies; i++) {
		memcpy(&stripe, item + stripes + i * sizeof(stripe), sizeof(stripe));
		ret->copies[i] = le64toh(stripe.offset);
	}
	return true;
}

static bool image_space_add(struct chunk_list *chunks, const struct chunk *chunk)
{
	if (chunks->n == chunks->room) {
		size_t room = chunks->room ? chunks->room * 2 : 64;
		struct chunk *list =
			room > CHUNKS_MAX ? NULL
					  : cairn_realloc_array(chunks->list, room, sizeof(*list));

		if (!list)
			return false;
		chunks->list = list;
		chunks->room = room;
	}
	chunks->list[chunks->n++] = *chunk;
	return true;
}

/* Adds the chunks in the buffer; *ret_last is the address of the last one. */
static bool image_space_take(struct chunk_list *chunks,
			     const struct btrfs_ioctl_search_args_v2 *search, uint64_t *ret_last)
{
	const uint8_t *at = (const uint8_t *)search->buf;
	const uint8_t *end = at + SEARCH_BUFFER;

	for (uint32_t i = 0; i < search->key.nr_items; i++) {
		struct btrfs_ioctl_search_header header;
		struct chunk chunk;

		if ((size_t)(end - at) < sizeof(header))
			return false;
		memcpy(&header, at, sizeof(header));
		at += sizeof(header);
		if ((size_t)(end - at) < header.len ||
		    !image_space_decode(header.offset, at, header.len, &chunk) ||
		    !image_space_add(chunks, &chunk))
			return false;
		*ret_last = header.offset;
		at += header.len;
	}
	return true;
}

/* False if they cannot be read; that of another filesystem is empty. */
static bool image_space_load(int root_fd, struct chunk_list *chunks)
{
	cairn_auto_free struct btrfs_ioctl_search_args_v2 *search =
		cairn_calloc(1, sizeof(*search) + SEARCH_BUFFER);
	uint64_t last = 0;

	if (!search)
		return false;
	search->key = (struct btrfs_ioctl_search_key){
		.tree_id = BTRFS_CHUNK_TREE_OBJECTID,
		.min_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.max_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
		.min_type = BTRFS_CHUNK_ITEM_KEY,
		.max_type = BTRFS_CHUNK_ITEM_KEY,
		.max_offset = UINT64_MAX,
		.max_transid = UINT64_MAX,
	};
	for (;;) {
		search->key.nr_items = UINT32_MAX;
		search->buf_size = SEARCH_BUFFER;
		if (ioctl(root_fd, BTRFS_IOC_TREE_SEARCH_V2, search) < 0)
			return errno == ENOTTY;
		if (search->key.nr_items == 0)
			return true;
		if (!image_space_take(chunks, search, &last))
			return false;
		search->key.min_offset = last + 1;
	}
}

/* ---- blocks that are allocated ahead --------------------------------------- */

/* One pass counts what is missing, the next one allocates it. */
struct secure {
	const struct chunk_list *chunks;
	int image_fd;
	bool allocate;
	uint64_t missing;
};

/* A request of FIEMAP and its answer. */
union extent_map {
	struct fiemap map;
	uint8_t room[sizeof(struct fiemap) + FILE_EXTENTS_MAX * sizeof(struct fiemap_extent)];
};

static uint32_t image_space_map(int fd, uint64_t offset, uint64_t length, union extent_map *ret)
{
	ret->map = (struct fiemap){
		.fm_start = offset, .fm_length = length, .fm_extent_count = FILE_EXTENTS_MAX};
	return ioctl(fd, FS_IOC_FIEMAP, &ret->map) == 0 ? ret->map.fm_mapped_extents : 0;
}

/* A range of the image. */
static void image_space_secure_range(struct secure *s, uint64_t offset, uint64_t length)
{
	uint64_t tail = length < TAIL ? length : TAIL;
	union extent_map host;

	if (length == 0 || image_space_map(s->image_fd, offset + length - tail, tail, &host) > 0)
		return;
	s->missing += length;
	if (s->allocate)
		(void)fallocate(s->image_fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length);
}

/* A range of addresses of the filesystem. */
static void image_space_secure_logical(struct secure *s, uint64_t logical, uint64_t length)
{
	if (s->chunks->n == 0)
		image_space_secure_range(s, logical, length);
	for (size_t i = 0; i < s->chunks->n; i++) {
		const struct chunk *chunk = &s->chunks->list[i];

		if (logical < chunk->logical || logical - chunk->logical >= chunk->length ||
		    length > chunk->length - (logical - chunk->logical))
			continue;
		for (unsigned c = 0; c < chunk->n_copies; c++)
			image_space_secure_range(s, chunk->copies[c] + (logical - chunk->logical),
						 length);
	}
}

static void image_space_secure_file(struct secure *s, int root_fd, const char *name)
{
	const uint32_t unknown = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |
				 FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_INLINE;
	cairn_auto_fd int fd =
		openat(root_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	union extent_map map;
	uint32_t n = fd < 0 ? 0 : image_space_map(fd, 0, UINT64_MAX, &map);

	for (uint32_t i = 0; i < n; i++)
		if (!(map.map.fm_extents[i].fe_flags & unknown))
			image_space_secure_logical(s, map.map.fm_extents[i].fe_physical,
						   map.map.fm_extents[i].fe_length);
}

static void image_space_secure_all(struct secure *s, int root_fd, const char *const *names)
{
	for (size_t i = 0; i < s->chunks->n; i++)
		if (s->chunks->list[i].metadata)
			image_space_secure_logical(s, s->chunks->list[i].logical,
						   s->chunks->list[i].length);
	for (; *names; names++)
		image_space_secure_file(s, root_fd, *names);
}

bool pool_image_space_secure(int image_fd, int root_fd, const char *const *names)
{
	cairn_cleanup(image_space_done) struct chunk_list chunks = {0};
	struct secure s = {.chunks = &chunks, .image_fd = image_fd};
	struct statvfs host;

	if (!image_space_load(root_fd, &chunks))
		return false;
	image_space_secure_all(&s, root_fd, names);
	if (s.missing > 0 && fstatvfs(image_fd, &host) == 0 &&
	    (uint64_t)host.f_bavail * host.f_frsize / 2 >= s.missing) {
		s.allocate = true;
		image_space_secure_all(&s, root_fd, names);
		s = (struct secure){.chunks = &chunks, .image_fd = image_fd};
		image_space_secure_all(&s, root_fd, names);
	}
	return s.missing == 0;
}

/* ---- free space ----------------------------------------------------------- */

static bool image_space_is_secure(const struct chunk_list *chunks, const struct chunk *chunk,
				  int image_fd)
{
	struct secure s = {.chunks = chunks, .image_fd = image_fd};

	image_space_secure_logical(&s, chunk->logical, chunk->length);
	return s.missing == 0;
}

/* On btrfs the range of FITRIM is one of its addresses; each call also trims what
 * belongs to no chunk. */
void pool_image_space_trim(int image_fd, int root_fd)
{
	cairn_cleanup(image_space_done) struct chunk_list chunks = {0};
	struct fstrim_range all = {.len = UINT64_MAX};

	if (!image_space_load(root_fd, &chunks) || chunks.n == 0)
		(void)ioctl(root_fd, FITRIM, &all);
	for (size_t i = 0; i < chunks.n; i++) {
		const struct chunk *chunk = &chunks.list[i];
		struct fstrim_range range = {.start = chunk->logical, .len = chunk->length};

		if (!chunk->metadata || !image_space_is_secure(&chunks, chunk, image_fd))
			(void)ioctl(root_fd, FITRIM, &range);
	}
}
