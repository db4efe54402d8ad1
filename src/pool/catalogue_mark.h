/* SPDX-License-Identifier: Apache-2.0 */

/* What "<catalogue>-trust" remembers of the write-ahead log: how far it reached
 * when it was last synced. SQLite takes a log that is missing, empty or cut short
 * for a short one, and what was committed in it is gone without an error.
 *
 * The mark is written behind each sync of a commit and is not synced itself: on
 * disk it is never ahead of the log. A log that was begun anew has a later salt,
 * and was begun because all of the old one is in the main file; then the mark says
 * nothing. A mark that does not fit its checksum counts as missing.
 */
#ifndef CAIRN_POOL_CATALOGUE_MARK_H
#define CAIRN_POOL_CATALOGUE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define CATALOGUE_SALT_SIZE 8

struct catalogue_mark {
	uint8_t salt[CATALOGUE_SALT_SIZE];
	uint64_t start; /* where the commit begins */
	uint64_t end;   /* 0: there is no mark */
	/* When the main file was last written to. Only checkpoints do that, and one
	 * that SQLite's own programs do when they close it removes the log. */
	uint64_t main_ns;
};

/* One page of the last transaction: checksums of what the main file held at its place
 * when the transaction was written, and of what it wrote. Nothing but a checkpoint
 * changes the main file, so this shows whether the log was copied into it. */
struct catalogue_page {
	uint32_t number; /* 0: not known */
	uint32_t size;
	uint64_t before, after;
};

/* Fills in the time of the main file at `path`. A failure does not concern the
 * caller: an older mark is never wrong. */
void catalogue_mark_write(int trust_fd, const char *path, struct catalogue_mark *mark);

/* The mark of the catalogue at `path`; end 0 where it has none or may not be read. */
struct catalogue_mark catalogue_mark_read(const char *path);

/* Written behind each transaction, also those that are not synced: what else changes the
 * page must not be taken for the transaction. Failures as above. */
void catalogue_page_write(int trust_fd, const struct catalogue_page *page);
struct catalogue_page catalogue_page_read(const char *path);

/* NULL, or what is wrong with the log in a few words. *ret_is_proven is false when it is
 * missing or empty, and only the main file can prove that it held commits. */
const char *catalogue_mark_fault(const char *path, const struct catalogue_mark *mark,
				 bool *ret_is_proven);

/* Walks the log: 0 when it has the marked salt, and its valid frames end before the
 * mark; else 1, or -1 with errno set. */
int catalogue_mark_is_reached(const char *path, const struct catalogue_mark *mark);

/* Before the first frame of a transaction is written at `offset` of the log with this salt. A commit that was
 * synced and marked, but is not in the index because its process was killed, is
 * written over by the next one: then the mark ends there, durably. A log that is
 * damaged before the mark keeps it. `trust_fd` may be -1. */
void catalogue_mark_lower(int trust_fd, const char *path, const uint8_t *salt, uint64_t offset);

/* Forgets the mark: the log is accepted as it is. 0, or -1 with errno set. */
int catalogue_mark_clear(const char *path);

#endif
