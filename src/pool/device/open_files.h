/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a process has a file open. The answer may be outdated as soon as it is
 * returned.
 */
#ifndef CAIRN_POOL_OPENED_H
#define CAIRN_POOL_OPENED_H

#include <stdbool.h>

enum opened {
	OPENED_NOT,
	OPENED,
	OPENED_UNKNOWN, /* the file cannot be opened, or the filesystem has no leases */
};

/* By another process, a loop device, or this process through another
 * descriptor. */
enum opened pool_open_files_for_writing(const char *path);

/* Marks an open file as being read until the descriptor is closed. The mark blocks no
 * other process; it has no effect if the filesystem does not support locks. */
void pool_open_files_mark_reader(int fd);

/* True if a reader has marked the file with pool_open_files_mark_reader(). */
bool pool_open_files_has_reader(const char *path);

#endif
