/* SPDX-License-Identifier: Apache-2.0 */

/* Verifies a delta: reads the data of both snapshots wherever the delta reports
 * nothing, which must be equal, and checks that ranges reported as zero are
 * zero. Ranges that are holes on both sides are equal without reading.
 */
#ifndef CAIRN_POOL_VERIFY_H
#define CAIRN_POOL_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct pool;
struct store_progress;

#define POOL_VERIFY_FAULTS_MAX 16 /* ranges stored; bytes are counted beyond that */

struct pool_verify_fault {
	uint64_t offset; /* of blocks of 4096 bytes, or the volume's end */
	uint64_t length;
	bool not_zero; /* reported as zero and is not; otherwise: changed, not reported */
};

struct pool_verify_result {
	uint64_t capacity;
	uint64_t compared_bytes; /* read on both sides and compared */
	uint64_t hole_bytes;     /* outside the delta, holes on both sides */
	uint64_t reported_bytes; /* the delta itself */
	uint64_t zero_bytes;     /* of these, reported as zero: holes, or read */
	uint64_t fault_bytes;
	size_t n_faults; /* in `faults` */
	struct pool_verify_fault faults[POOL_VERIFY_FAULTS_MAX];
};

/* Returns 0 when everything could be read; the result says what was found.
 *
 * CAIRN_PRECONDITION  the data of one of them is gone
 * CAIRN_CANCELLED     `progress` said so
 * and those of pool_delta_open().
 */
int pool_verify(struct pool *pool, const char *base, const char *target,
		const struct store_progress *progress, struct pool_verify_result *ret,
		struct cairn_err *err);

#endif
