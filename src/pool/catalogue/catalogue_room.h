/* SPDX-License-Identifier: Apache-2.0 */

/* Commits at 0 bytes free in a pool without a reserve: one that an older version made
 * and that is full when it is upgraded.
 *
 * The blocks come from the catalogue's own files. A connection that excludes all others
 * works without the shared index of the log, so the blocks of the index can be
 * released; they hold a small commit. After it the log is copied into the main file,
 * restarted and cut to one frame, and the index takes its blocks again. So a
 * filesystem that writes in place needs no space in the end, however many commits
 * follow.
 */
#ifndef CAIRN_POOL_CATALOGUE_ROOM_H
#define CAIRN_POOL_CATALOGUE_ROOM_H

#include <stdbool.h>

struct cairn_err;
struct catalogue;
struct conn;

/* After a commit failed for lack of space: true when the next one is to be made in this
 * way, so that the caller should retry. False when that has failed before. */
bool pool_catalogue_make_room(struct catalogue *cat);

struct catalogue_room {
	struct conn *conn;
	int index_fd;
};

/* Closes the idle connections of the catalogue, and waits a moment for those of others.
 * Call with the writer's lock held.
 *
 * CAIRN_ABORTED  others use the catalogue
 */
int pool_catalogue_room_enter(struct catalogue *cat, struct catalogue_room *ret,
			      struct cairn_err *err);

/* Shortens the log; false when there was no space even for that. */
bool pool_catalogue_room_shorten(const struct catalogue_room *room);

/* Shortens the log, and gives the index its blocks again. */
void pool_catalogue_room_leave(struct catalogue_room *room);

#endif
