/* SPDX-License-Identifier: Apache-2.0 */

/* What the tests of stores share: a store on a scratch filesystem, and small
 * words for writing and reading its volumes. */
#ifndef CAIRN_TESTS_UNIT_STORE_HELPER_H
#define CAIRN_TESTS_UNIT_STORE_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/extent.h"
#include "pool/store/store.h"
#include "scratchfs.h"

struct cairn_err;

#define KIB 1024ULL
#define MIB (1024 * KIB)

struct store_env {
	const char *backend;
	enum scratchfs_kind kind;
	const char *dir;
	struct store *store;
};

/* Extents collected by a sink. */
struct collected {
	struct block_extent *list;
	size_t n, room;
	int fail_with; /* not 0: what emit returns */
};

struct block_sink collected_sink(struct collected *c);
void collected_done(struct collected *c);

static inline struct store_ref volume_ref(const char *id)
{
	return (struct store_ref){STORE_VOLUME, id};
}

static inline struct store_ref snapshot_ref(const char *id)
{
	return (struct store_ref){STORE_SNAPSHOT, id};
}

/* The backing file of a volume, open for reading and writing. */
int open_volume(struct store *store, const char *id);

/* Cuts all that the volume's file has. */
int cut_whole(struct store *store, const char *volume, const char *snapshot, struct cairn_err *err);

/* pool_store_volume_replace() without a call before the exchange. */
int replace(struct store *store, const char *id, const char *snapshot_id, uint64_t length,
	    uint64_t size, struct cairn_err *err);

void fill_at(struct store *store, const char *id, uint64_t offset, size_t n, unsigned char byte);
unsigned char byte_at(struct store *store, struct store_ref ref, uint64_t offset);

/* The delta as extents; fails the test when it is out of order. */
void delta_of(struct store *store, const char *base, const char *target, struct collected *ret);

/* True if [offset, offset + n) lies in the extents as a whole. */
bool covers(const struct collected *c, uint64_t offset, uint64_t n);

/* Fails the test unless both hold the same extents. */
void assert_same_extents(const struct collected *a, const struct collected *b);

/* Runs the conformance tests; the exit status of a test program. */
int store_conformance(const char *backend, enum scratchfs_kind kind);

#endif
