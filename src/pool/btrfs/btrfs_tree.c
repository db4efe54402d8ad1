/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/btrfs_tree.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>

#include "base/err.h"
#include "base/mem.h"

/* The kernel touches every page of the buffer once per leaf, so a larger one
 * costs more than the calls it saves. */
#define BUFFER (64U << 10)

/* How far to search backwards for an item that covers a position. The largest
 * disk extent of btrfs is a preallocated one, 256 MiB. */
static const uint64_t look_back[] = {64 << 10, 1 << 20, 16 << 20, 1ULL << 30};

struct tree_source {
	struct mapping_source source;
	int fd;
	bool ended;
	uint64_t last_end;  /* of the mapping delivered last */
	uint32_t left;      /* items in the buffer not yet delivered */
	const uint8_t *at;  /* the next of them */
	const uint8_t *end; /* of the buffer */
	struct btrfs_ioctl_search_args_v2 *search;
};

static void search_init(struct btrfs_ioctl_search_args_v2 *search, uint64_t inode, uint64_t start,
			uint64_t min_transid)
{
	search->key = (struct btrfs_ioctl_search_key){
		.min_objectid = inode,
		.max_objectid = inode,
		.min_type = BTRFS_EXTENT_DATA_KEY,
		.max_type = BTRFS_EXTENT_DATA_KEY,
		.min_offset = start,
		.max_offset = UINT64_MAX,
		.min_transid = min_transid,
		.max_transid = UINT64_MAX,
	};
}

/* Fills the buffer from the key's min_offset on. */
static int search_run(int fd, struct btrfs_ioctl_search_args_v2 *search, struct cairn_err *err)
{
	search->key.nr_items = UINT32_MAX;
	search->buf_size = BUFFER;
	while (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, search) < 0) {
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "search the filesystem's tree");
	}
	return 0;
}

static void btrfs_tree_place(struct mapping *out, const struct btrfs_file_extent_item *item)
{
	uint64_t disk = le64toh(item->disk_bytenr);

	out->length = le64toh(item->num_bytes);
	if (item->type == BTRFS_FILE_EXTENT_PREALLOC || disk == 0) {
		out->kind = MAPPING_ZERO;
	} else if (item->type == BTRFS_FILE_EXTENT_REG && item->encryption == 0 &&
		   item->other_encoding == 0) {
		out->kind = MAPPING_DATA;
		out->place = disk;
		out->inner = le64toh(item->offset);
	} else {
		out->kind = MAPPING_OPAQUE;
	}
}

static int btrfs_tree_decode(struct tree_source *t, const struct btrfs_ioctl_search_header *head,
			     const uint8_t *body, struct mapping *out, struct cairn_err *err)
{
	struct btrfs_file_extent_item item;
	const size_t short_len = offsetof(struct btrfs_file_extent_item, disk_bytenr);

	memset(&item, 0, sizeof(item));
	if (head->len < short_len)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "extent item of %u bytes", head->len);
	/* Copies of constant length are moves; only inline items are short. */
	if (head->len >= sizeof(item))
		memcpy(&item, body, sizeof(item));
	else
		memcpy(&item, body, short_len);
	*out = (struct mapping){.offset = head->offset};
	if (item.type == BTRFS_FILE_EXTENT_INLINE) {
		out->kind = MAPPING_OPAQUE;
		out->length = le64toh(item.ram_bytes);
	} else if (head->len < sizeof(item)) {
		return cairn_err_set(err, CAIRN_DATA_LOSS, "extent item of %u bytes", head->len);
	} else {
		btrfs_tree_place(out, &item);
	}
	if (out->offset < t->last_end || out->length > UINT64_MAX - out->offset)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "extent items overlap");
	t->last_end = out->offset + out->length;
	return 0;
}

static int btrfs_tree_refill(struct tree_source *t, struct cairn_err *err)
{
	int rc = search_run(t->fd, t->search, err);

	if (rc)
		return rc;
	t->left = t->search->key.nr_items;
	t->ended = t->left == 0;
	t->at = t->search->buf;
	t->end = t->search->buf + BUFFER;
	return 0;
}

/* Takes the next item of the buffer. */
static int btrfs_tree_take(struct tree_source *t, struct mapping *out, struct cairn_err *err)
{
	struct btrfs_ioctl_search_header head;
	size_t room = (size_t)(t->end - t->at);

	if (room < sizeof(head))
		return cairn_err_set(err, CAIRN_INTERNAL, "tree search gave half an item");
	memcpy(&head, t->at, sizeof(head));
	if (room - sizeof(head) < head.len)
		return cairn_err_set(err, CAIRN_INTERNAL, "tree search gave half an item");
	t->at += sizeof(head);
	int rc = btrfs_tree_decode(t, &head, t->at, out, err);

	if (rc)
		return rc;
	t->at += head.len;
	t->left--;
	if (head.offset == UINT64_MAX)
		t->ended = true;
	else
		t->search->key.min_offset = head.offset + 1;
	return 0;
}

static int tree_next(struct mapping_source *source, struct mapping *out, size_t max, size_t *ret_n,
		     struct cairn_err *err)
{
	struct tree_source *t = (struct tree_source *)source;
	size_t n = 0;

	while (n < max && (t->left > 0 || !t->ended)) {
		int rc = t->left > 0 ? 0 : btrfs_tree_refill(t, err);

		if (rc)
			return rc;
		for (; n < max && t->left > 0; n++) {
			rc = btrfs_tree_take(t, &out[n], err);
			if (rc)
				return rc;
		}
	}
	*ret_n = n;
	return 0;
}

static int inode_of(int fd, uint64_t *ret, struct cairn_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "inode of a disk file");
	*ret = st.st_ino;
	return 0;
}

static int search_new(int fd, uint64_t start, uint64_t min_transid,
		      struct btrfs_ioctl_search_args_v2 **ret, struct cairn_err *err)
{
	struct btrfs_ioctl_search_args_v2 *search;
	uint64_t inode = 0;
	int rc = inode_of(fd, &inode, err);

	if (rc)
		return rc;
	search = cairn_alloc(sizeof(*search) + BUFFER);
	if (!search)
		return cairn_err_nomem(err, "tree search");
	search_init(search, inode, start, min_transid);
	*ret = search;
	return 0;
}

int btrfs_tree_source_new(int fd, struct mapping_source **ret, struct cairn_err *err)
{
	cairn_auto_free struct tree_source *t = cairn_calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return cairn_err_nomem(err, "tree search");
	rc = search_new(fd, 0, 0, &t->search, err);
	if (rc)
		return rc;
	t->source.next = tree_next;
	t->fd = fd;
	*ret = &cairn_take(t)->source;
	return 0;
}

/* Steps over the items in the buffer to the last one's offset. */
static int last_offset(const struct btrfs_ioctl_search_args_v2 *search, uint64_t *ret,
		       struct cairn_err *err)
{
	struct btrfs_ioctl_search_header head = {0};
	size_t at = 0;

	for (uint32_t i = 0; i < search->key.nr_items; i++) {
		if (at + sizeof(head) > BUFFER)
			return cairn_err_set(err, CAIRN_INTERNAL, "tree search gave half an item");
		memcpy(&head, search->buf + at, sizeof(head));
		at += sizeof(head) + head.len;
	}
	*ret = head.offset;
	return 0;
}

/* The offset of the last item in [from, to], if there is one. */
static int last_item(struct tree_source *t, uint64_t from, uint64_t to, bool *ret_found,
		     uint64_t *ret_offset, struct cairn_err *err)
{
	t->search->key.min_offset = from;
	t->search->key.max_offset = to;
	*ret_found = false;
	for (;;) {
		int rc = search_run(t->fd, t->search, err);

		if (rc || t->search->key.nr_items == 0)
			return rc;
		rc = last_offset(t->search, ret_offset, err);
		*ret_found = true;
		if (rc || *ret_offset >= to)
			return rc;
		t->search->key.min_offset = *ret_offset + 1;
	}
}

int btrfs_tree_source_seek(struct mapping_source *source, uint64_t start, uint64_t end,
			   struct cairn_err *err)
{
	struct tree_source *t = (struct tree_source *)source;
	uint64_t at = start, to = start;
	bool found = false;

	for (size_t i = 0; !found && i < sizeof(look_back) / sizeof(look_back[0]); i++) {
		uint64_t from = start < look_back[i] ? 0 : start - look_back[i];
		int rc = last_item(t, from, to, &found, &at, err);

		if (rc)
			return rc;
		if (from == 0)
			break;
		to = from - 1;
	}
	t->search->key.min_offset = found ? at : start;
	t->search->key.max_offset = end - 1;
	t->left = 0;
	t->ended = false;
	t->last_end = 0;
	return 0;
}

void btrfs_tree_source_free(struct mapping_source *source)
{
	struct tree_source *t = (struct tree_source *)source;

	if (t)
		free(t->search);
	free(t);
}

int btrfs_tree_count_newer(int fd, uint64_t start, uint64_t generation, uint64_t max,
			   uint64_t *ret_n, struct cairn_err *err)
{
	cairn_auto_free struct btrfs_ioctl_search_args_v2 *search = NULL;
	uint64_t n = 0;
	int rc = search_new(fd, start, generation + 1, &search, err);

	while (rc == 0 && n < max) {
		uint64_t offset = 0;

		rc = search_run(fd, search, err);
		if (rc || search->key.nr_items == 0)
			break;
		n += search->key.nr_items;
		rc = last_offset(search, &offset, err);
		if (offset == UINT64_MAX)
			break;
		search->key.min_offset = offset + 1;
	}
	if (rc == 0)
		*ret_n = n < max ? n : max;
	return rc;
}
