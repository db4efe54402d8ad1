/* SPDX-License-Identifier: Apache-2.0 */

/* A scratch pool for tests of the engine: the copy back end in a temporary
 * directory, so it runs anywhere and without root. */
#ifndef CAIRN_TESTS_UNIT_POOLFIX_H
#define CAIRN_TESTS_UNIT_POOLFIX_H

#include <stdint.h>

#include "pool/pool.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define BLK 4096ULL

struct poolfix {
	char dir[64];
	struct pool *pool;
};

/* cmocka setup and teardown; `*state` is the struct poolfix. */
int poolfix_setup(void **state);
/* The same with tombstones that expire after a millisecond. */
int poolfix_setup_impatient(void **state);
int poolfix_teardown(void **state);

void poolfix_reopen(struct poolfix *fix);

/* Writes one 4 KiB block full of `byte`. */
void poolfix_write(struct poolfix *fix, const char *volume, uint64_t block, int byte);
void poolfix_snapshot(struct poolfix *fix, const char *volume, const char *name);

/* The delta as text, "0-2 5z 7": block numbers, 'z' for zero. `base` may be
 * NULL. Returns a static buffer; on an error, its gRPC name. */
const char *poolfix_delta(struct poolfix *fix, const char *base, const char *target);

/* Fails the test unless pool_check finds nothing. */
void poolfix_check_clean(struct poolfix *fix);

#endif
