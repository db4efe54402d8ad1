/* SPDX-License-Identifier: Apache-2.0 */

/* Whether somebody has a file open. As it is now: somebody may open it at any moment
 * after.
 */
#ifndef CAIRN_POOL_OPENED_H
#define CAIRN_POOL_OPENED_H

#include <stdbool.h>

enum opened {
	OPENED_NOT,
	OPENED,
	OPENED_UNKNOWN, /* the file cannot be opened, or the filesystem has no leases */
};

/* Another process, a loop device, or this process by another descriptor. */
enum opened opened_for_writing(const char *path);

/* Says of an open file that it is being read, until the descriptor is closed. In the way
 * of nobody; where the filesystem has no locks, nothing is said. */
void opened_mark_reader(int fd);

/* True if somebody who has marked it is reading the file. */
bool opened_has_reader(const char *path);

#endif
