/* SPDX-License-Identifier: Apache-2.0 */

/* A repository in a scratch directory, and small backups in it. */
#ifndef CAIRN_TESTS_UNIT_REPOFIX_H
#define CAIRN_TESTS_UNIT_REPOFIX_H

#include <stdint.h>

#include "repo/repo.h"
#include "repo/repo_snapshot.h"

struct repofix {
	char dir[64];  /* scratch */
	char path[96]; /* of the repository, below it */
	struct repo *repo;
};

/* cmocka's: *state becomes the fixture, with an empty repository, not open. */
int repofix_setup(void **state);
int repofix_teardown(void **state);

/* What opens it: small packs, a cheap key. */
struct repo_options repofix_options(const struct repofix *fix, enum repo_lock_kind lock);

/* Opens and loads the index; closes what was open before. */
void repofix_open(struct repofix *fix, enum repo_lock_kind lock);
void repofix_close(struct repofix *fix);

/* The n bytes of blob `seed`: the same each time. */
void repofix_bytes(uint64_t seed, uint8_t *out, size_t n);

#define REPOFIX_BLOB 5000

/* A snapshot of one file "/vol/data" whose content are the blobs of seeds first
 * to first + n - 1, REPOFIX_BLOB bytes each. */
int repofix_backup(struct repo *repo, uint64_t first, size_t n, struct repo_id *ret,
		   struct cairn_err *err);

/* Fails the test unless the snapshot holds exactly that. */
void repofix_verify(struct repo *repo, const struct repo_id *id, uint64_t first, size_t n);

/* How many problems a check finds; -1 when it could not run. */
int repofix_problems(struct repo *repo, bool read_data);

#endif
