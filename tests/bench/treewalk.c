/* SPDX-License-Identifier: Apache-2.0 */

/* The least that comparing two files on btrfs can cost: walks the extent items
 * of each file with the kernel's tree search and prints how many there are.
 *   bench-treewalk FILE... */
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define ANSWER_BYTES (1U << 20)

/* Counts the items of one answer and moves the search past the last. */
static uint64_t count_items(const struct btrfs_ioctl_search_args_v2 *args, uint64_t *ret_next)
{
	const char *at = (const char *)args->buf;
	uint64_t items = 0;

	for (uint32_t i = 0; i < args->key.nr_items; i++) {
		struct btrfs_ioctl_search_header header;

		memcpy(&header, at, sizeof(header));
		at += sizeof(header) + header.len;
		items += header.type == BTRFS_EXTENT_DATA_KEY;
		*ret_next = header.offset + 1;
	}
	return items;
}

static int walk(int fd, struct btrfs_ioctl_search_args_v2 *args, uint64_t *ret_items)
{
	uint64_t start = 0;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	*ret_items = 0;
	for (;;) {
		args->key = (struct btrfs_ioctl_search_key){
			.min_objectid = st.st_ino,
			.max_objectid = st.st_ino,
			.min_type = BTRFS_EXTENT_DATA_KEY,
			.max_type = BTRFS_EXTENT_DATA_KEY,
			.min_offset = start,
			.max_offset = UINT64_MAX,
			.max_transid = UINT64_MAX,
			.nr_items = UINT32_MAX,
		};
		args->buf_size = ANSWER_BYTES;
		if (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, args) < 0)
			return -1;
		if (args->key.nr_items == 0)
			return 0;
		*ret_items += count_items(args, &start);
	}
}

int main(int argc, char **argv)
{
	struct btrfs_ioctl_search_args_v2 *args = cairn_alloc(sizeof(*args) + ANSWER_BYTES);
	int status = args ? 0 : 1;

	for (int i = 1; i < argc && status == 0; i++) {
		int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
		uint64_t items = 0;

		if (fd < 0 || walk(fd, args, &items) < 0) {
			perror(argv[i]);
			status = 1;
		} else {
			printf("%ju extents in %s\n", (uintmax_t)items, argv[i]);
		}
		if (fd >= 0)
			close(fd);
	}
	free(args);
	return status;
}
