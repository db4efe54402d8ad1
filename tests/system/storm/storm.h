/* SPDX-License-Identifier: Apache-2.0 */

/* A storm: processes of many threads do every operation on one pool at once, some
 * of them are killed, and what was acknowledged is held against what is there.
 *
 * Truth is kept beside the pool, in files, because a worker may be killed anywhere:
 *   acks     one line for each step: "+" before an id that was acknowledged, "-"
 *            before its deletion is asked for, "=" when that was acknowledged
 *   sums/ID  the checksums of a snapshot's blocks, read when it was new
 * and in memory that all processes share: the newest write to each block of each
 * volume that was acknowledged. A block has one writer, so a snapshot that is asked
 * for later must hold that write or a newer one.
 */
#ifndef CAIRN_TESTS_STORM_H
#define CAIRN_TESTS_STORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

#define STORM_BLOCK      4096U
#define STORM_BLOCKS     64U  /* of a new volume */
#define STORM_BLOCKS_MAX 128U /* of one that has grown */
#define STORM_VOLUMES    10U  /* names in use; fewer means more of it meets */
#define STORM_NAMES      6U   /* of snapshots in a volume */
#define STORM_WRITES     8192U

struct storm_written {
	_Atomic uint64_t volume; /* 0: free */
	_Atomic uint64_t stamps[STORM_BLOCKS_MAX];
	atomic_bool rolled_back; /* it was asked for: what was written may be gone */
};

struct storm_shared {
	_Atomic uint64_t stamp; /* the last one that was given to a write */
	_Atomic uint64_t operations;
	_Atomic uint64_t snapshots;
	_Atomic uint64_t deltas; /* compared with truth */
	_Atomic uint64_t refused;
	atomic_bool stop;
	struct storm_written written[STORM_WRITES];
};

struct storm {
	struct storm_shared *shared;
	const char *dir; /* of the pool, or its address */
	bool on_ceph;
	char truth[128]; /* directory */
	int acks;        /* appended to */
	int sums;        /* directory */
	unsigned threads;
	unsigned workers; /* processes times threads */
	bool attach;
	bool checks;
};

/* What one thread works with. */
struct storm_thread {
	struct storm *storm;
	struct pool *pool;
	unsigned index; /* among all workers; the blocks that it writes follow from it */
	uint64_t random;
};

/* ---- truth.c ---- */

struct storm_sums {
	uint64_t size;
	uint64_t blocks[STORM_BLOCKS_MAX]; /* 0: all zeros */
};

void storm_ack(struct storm *storm, char what, const char *id);

/* Reads a snapshot's blocks. A code when it cannot be read (any more). */
int storm_sums_read(struct pool *pool, const char *snapshot, struct storm_sums *ret,
		    uint64_t stamps[STORM_BLOCKS_MAX], struct cairn_err *err);
void storm_sums_keep(struct storm *storm, const char *snapshot, const struct storm_sums *sums);
bool storm_sums_find(struct storm *storm, const char *snapshot, struct storm_sums *ret);

/* Compares a delta that was opened with what is known of both; exits when a change
 * is not in it. `base` NULL: what is allocated. False when the delta ended early
 * because its target was deleted. */
bool storm_delta_compare(struct storm *storm, struct pool_delta *delta,
			 const struct storm_sums *base, const struct storm_sums *target);

/* The stamps of a volume; NULL when the table is full. */
struct storm_written *storm_written_of(struct storm *storm, const char *volume_id);

/* The promises at the end, and the pool emptied. */
void storm_settle(struct storm *storm);

/* ---- write_rbd.c ---- */

/* Writes a block to a volume on Ceph, as the pool's own client. False if it was not
 * acknowledged. */
bool storm_write_rbd(struct pool *pool, const char *volume_id, uint64_t offset, const void *block);

/* ---- ops.c ---- */

uint64_t storm_random(struct storm_thread *thread, uint64_t below);

/* One random operation. */
void storm_step(struct storm_thread *thread);

/* Says what is wrong and ends the process. */
_Noreturn void storm_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails for a code that no operation may end with because others are at work. */
void storm_expect(const char *what, const char *on, int rc, const struct cairn_err *err);

#endif
