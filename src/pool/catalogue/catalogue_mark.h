/* SPDX-License-Identifier: Apache-2.0 */

/* The file "<catalogue>-trust" records how far the write-ahead log reached when it
 * was last synced. SQLite treats a missing, empty or truncated log as a valid
 * shorter one, so the commits in it would be lost without an error.
 *
 * The mark is written after each sync of a commit and is not synced itself, so on
 * disk it is never ahead of the log. A restarted log has a later salt, and was
 * restarted because all of the old one is in the main file; the mark is then
 * ignored. A mark with a wrong checksum counts as missing.
 */
#ifndef CAIRN_POOL_CATALOGUE_MARK_H
#define CAIRN_POOL_CATALOGUE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define CATALOGUE_SALT_SIZE 8

struct catalogue_mark {
	uint8_t salt[CATALOGUE_SALT_SIZE];
	uint64_t start; /* where the commit begins */
	uint64_t end;   /* 0: no mark */
	/* When the main file was last written. Only checkpoints write it, and the
	 * checkpoint that SQLite's own programs do on close removes the log. */
	uint64_t main_ns;
};

/* One page of the last transaction: checksums of the main file's contents of that
 * page when the transaction was written, and of the contents that it wrote. Only a
 * checkpoint changes the main file, so this shows whether the log was copied into
 * it. */
struct catalogue_page {
	uint32_t number; /* 0: not known */
	uint32_t size;
	uint64_t before, after;
};

/* Fills in the time of the main file at `path`. Failures are ignored: an older
 * mark is still correct. */
void pool_catalogue_mark_write(int trust_fd, const char *path, struct catalogue_mark *mark);

/* The mark of the catalogue at `path`; end is 0 if there is no mark, with errno 0, or if it
 * cannot be read, with errno set. */
struct catalogue_mark pool_catalogue_mark_read(const char *path);

/* True when the mark is of the log with this salt: a commit in it was synced. */
bool pool_catalogue_mark_is_of(int trust_fd, const uint8_t *salt);

/* True when the log with this salt is a restart of the marked one. */
bool pool_catalogue_mark_precedes(int trust_fd, const uint8_t *salt);

/* Written after each transaction, also after those that are not synced: a later change
 * of the page must not be taken for this transaction. But not before a commit in the
 * same log was synced: after a power cut, or when the process is killed, that log may hold
 * no commit, and the main file is then as before this one. Failures are ignored. */
void pool_catalogue_page_write(int trust_fd, const struct catalogue_page *page);
/* The same for the page and its number. */
struct catalogue_page pool_catalogue_page_read(const char *path);

/* NULL, or a short description of the fault in the log. *ret_is_proven is false when it
 * is missing or empty, because then only the main file can prove that it held
 * commits. */
const char *pool_catalogue_mark_fault(const char *path, const struct catalogue_mark *mark,
				      bool *ret_is_proven);

/* Walks the log: 0 when it has the marked salt, and its valid frames end before the
 * mark; else 1, or -1 with errno set. */
int pool_catalogue_mark_is_reached(const char *path, const struct catalogue_mark *mark);

/* Called before the first frame of a transaction is written at `offset` of the log with this salt.
 * A commit that was synced and marked, but is not in the index because its process was killed, is
 * overwritten by the next one: the mark is then lowered to `offset`, durably. A log that is damaged
 * before the mark keeps it. `trust_fd` may be -1. */
void pool_catalogue_mark_lower(int trust_fd, const char *path, const uint8_t *salt,
			       uint64_t offset);

/* Removes the mark, which accepts the log as it is. 0, or -1 with errno set. */
int pool_catalogue_mark_clear(const char *path);

#endif
