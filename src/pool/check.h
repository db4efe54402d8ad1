/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of pool_check(): check.c walks records and data, check_set.c
 * verifies change sets, check_index.c the indexes, check_other.c the rest of the
 * catalogue. */
#ifndef CAIRN_POOL_CHECK_H
#define CAIRN_POOL_CHECK_H

#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;
struct record_snapshot;
struct record_volume;

struct check {
	struct pool *pool;
	const struct pool_check_spec *spec;
	struct pool_check_result result;
};

void check_fault(struct check *check, enum pool_fault_state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* For walks of records whose damage has been told already. */
void check_ignore_fault(void *arg, char kind, uint64_t key, const char *reason);

/* Verifies the snapshot's set, or says why there is none. */
int check_set(struct check *check, const struct record_snapshot *snapshot, const char *id,
	      struct cairn_err *err);

/* The volume's next snapshot has nothing to be compared with. */
int check_lost_head(struct check *check, const struct record_volume *volume, struct cairn_err *err);

/* Set files that no record wants. */
int check_stray_sets(struct check *check, struct cairn_err *err);

int check_indexes(struct check *check, struct cairn_err *err);

/* Values that are neither record nor index. */
int check_others(struct check *check, struct cairn_err *err);

#endif
