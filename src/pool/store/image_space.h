/* SPDX-License-Identifier: Apache-2.0 */

/* The blocks that an image has on its host. An image is sparse, so a write inside it
 * may need a block that a full host does not have. What a deletion writes has its
 * blocks allocated ahead: the catalogue's files, and on btrfs all metadata, because
 * btrfs stops for good when a write of metadata fails. XFS writes its log in place and
 * retries its metadata until there is space.
 *
 * Any number of processes may call these at the same time.
 */
#ifndef CAIRN_POOL_IMAGE_SPACE_H
#define CAIRN_POOL_IMAGE_SPACE_H

#include <stdbool.h>

/* Allocates the host's blocks for the metadata of the filesystem that is mounted at
 * `root_fd`, and for the files in it that `names` lists, which ends with NULL; but not
 * if that would take half of the host's free space. Takes a few ioctls if nothing is to
 * be allocated. True if all have their blocks: without them the image works, but may
 * stop when its host is full. The files are opened and closed, so none may have locks of
 * this process (fcntl(2)). */
bool pool_image_space_secure(int image_fd, int root_fd, const char *const *names);

/* Returns free space of the filesystem to the host, but not what was allocated ahead. */
void pool_image_space_trim(int image_fd, int root_fd);

#endif
