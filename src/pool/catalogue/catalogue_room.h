/* SPDX-License-Identifier: Apache-2.0 */

/* Commits at 0 bytes free in a pool without a reserve: one that an older version made
 * and that is full when it is upgraded.
 *
 * The blocks come from the catalogue's own files. A connection that excludes all others
 * works without the shared index of the log, so the blocks of the index can be
 * released; they hold a small commit. After it the log is copied into the main file and
 * restarted, and the index takes its blocks again. A filesystem that writes in place has
 * blocks for the next commit then, in the log that is kept, and needs no space however
 * many commits follow; otherwise the log is cut to one frame.
 */
#ifndef CAIRN_POOL_CATALOGUE_ROOM_H
#define CAIRN_POOL_CATALOGUE_ROOM_H

#include <stdbool.h>

struct cairn_err;
struct catalogue_sqlite;
struct conn;

/* After a commit, with the writer's lock held: closes the connections if they are not
 * to be kept. */
void pool_catalogue_close_if_let_go(struct catalogue_sqlite *cat);

struct catalogue_room {
	struct conn *conn;
	int index_fd;  /* -1 while the index keeps its blocks */
	bool in_place; /* the filesystem writes to the blocks that a file has */
};

/* Closes the idle connections of the catalogue, and waits a moment for those of others.
 * Call with the writer's lock held.
 *
 * CAIRN_ABORTED  others use the catalogue
 */
int pool_catalogue_room_enter(struct catalogue_sqlite *cat, struct catalogue_room *ret,
			      struct cairn_err *err);

/* Where the index still has its blocks: releases them for the next commit, and is true. */
bool pool_catalogue_room_release(const struct catalogue_sqlite *cat, struct catalogue_room *room);

/* Shortens the log; false when there was no space even for that. */
bool pool_catalogue_room_shorten(const struct catalogue_room *room);

/* Shortens the log, and gives the index its blocks again. */
void pool_catalogue_room_leave(const struct catalogue_sqlite *cat, struct catalogue_room *room);

#endif
