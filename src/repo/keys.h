/* SPDX-License-Identifier: Apache-2.0 */

/* The keys of a repository: each key file holds the same key, sealed with another password.
 *
 * The key that the repository was opened with is never removed, so there is always one that
 * opens it, and the caller knows its password. A new key file is durable, and was read back
 * and opened, before an old one is removed.
 *
 * A user who knew the password may have kept the key itself: removing a key file locks out
 * only users who have not. restic behaves in the same way.
 */
#ifndef CAIRN_REPO_KEYS_H
#define CAIRN_REPO_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct repo;

struct repo_key_info {
	struct repo_id id;
	bool current; /* the repository was opened with it */
	bool damaged; /* it cannot be read; the other fields are unknown */
	char *hostname;
	char *username;
	int64_t created_ns;
};

struct repo_key_list {
	struct repo_key_info *items;
	size_t n;
};

int repo_key_list(struct repo *repo, struct repo_key_list *ret, struct cairn_err *err);
void repo_key_list_done(struct repo_key_list *list);

/* Writes a key file for the repository's key; `kdf_n` as in repo_options. */
int repo_key_write(struct repo *repo, const void *password, size_t n, uint64_t kdf_n,
		   struct repo_id *ret_id, struct cairn_err *err);

/* The same, and verifies that it can be opened. Any kind of lock is
 * sufficient. */
int repo_key_add(struct repo *repo, const void *password, size_t n, struct repo_id *ret_id,
		 struct cairn_err *err);

/* Removes the key whose id begins with `prefix`. Needs the exclusive lock.
 *
 * CAIRN_PRECONDITION  it is the key in use, or the key in use no longer exists
 * CAIRN_NOT_FOUND, CAIRN_INVALID  no id, or several ids, begin with it
 */
int repo_key_remove(struct repo *repo, const char *prefix, struct repo_id *ret_id,
		    struct cairn_err *err);

/* Adds a key and removes the one that was in use. Needs the exclusive lock. */
int repo_key_change(struct repo *repo, const void *password, size_t n, struct repo_id *ret_id,
		    struct cairn_err *err);

#endif
