/* SPDX-License-Identifier: Apache-2.0 */

/* Upkeep of a pool: expiry of tombstones, checks and repairs, and what repairs set aside. */
#ifndef CAIRN_POOL_POOL_UPKEEP_H
#define CAIRN_POOL_POOL_UPKEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool_names.h"

struct cairn_err;
struct pool;
struct store_progress;

/* Merges at most `max` tombstones past their retention time. Creating and
 * deleting snapshots also merge a few each. */
int pool_expire(struct pool *pool, size_t max, size_t *ret_merged, struct cairn_err *err);

enum pool_fault_state {
	POOL_FAULT_FOUND, /* not repairing */
	POOL_FAULT_REPAIRED,
	POOL_FAULT_LOST, /* cannot be recovered; now recorded as lost */
};

struct pool_check_spec {
	bool repair;
	/* Called for each fault, with one line of text. */
	void (*fault)(void *arg, enum pool_fault_state state, const char *line);
	void *arg;
	const struct store_progress *progress;
};

struct pool_check_result {
	uint64_t volumes;
	uint64_t snapshots;
	uint64_t sets;
	uint64_t found;
	uint64_t repaired;
	uint64_t lost;
	uint64_t quarantined; /* objects in quarantine at the end */
};

/* Verifies every checksum and reference. Returns 0 when the check itself could
 * run; the result counts the faults. */
int pool_check(struct pool *pool, const struct pool_check_spec *spec, struct pool_check_result *ret,
	       struct cairn_err *err);

struct pool_data_result {
	uint64_t bytes; /* that were read */
	uint64_t faults;
};

/* Reads all allocated data of volumes and snapshots, which pool_check() does not. A fault
 * is an object that cannot be read completely, because a device fails or a checksum of
 * the filesystem does not match. Data in the page cache is not read from the device.
 * Nothing is repaired; spec->repair is ignored. */
int pool_read_data(struct pool *pool, const struct pool_check_spec *spec,
		   struct pool_data_result *ret, struct cairn_err *err);

/* Objects that repairs moved out of the way instead of removing them. */
enum pool_quarantine_kind {
	POOL_QUARANTINE_VOLUME,
	POOL_QUARANTINE_SNAPSHOT,
	POOL_QUARANTINE_SET,
	POOL_QUARANTINE_VALUE, /* the bytes of a damaged value of the catalogue */
};

struct pool_quarantined {
	enum pool_quarantine_kind kind;
	char id[POOL_ID_MAX + 1];
	char key[600];       /* of a value: where it stood */
	const uint8_t *data; /* of a value: its bytes, borrowed */
	size_t len;
};

/* A positive return of `fn` ends the listing. */
int pool_quarantine_list(struct pool *pool,
			 int (*fn)(void *arg, const struct pool_quarantined *item,
				   struct cairn_err *err),
			 void *arg, struct cairn_err *err);

/* Brings a volume or snapshot back, and creates a record for it if there is
 * none; `ret_text` describes the result. A change set is brought back if a
 * record still refers to it.
 *
 * CAIRN_NOT_FOUND     not in quarantine
 * CAIRN_EXISTS        an object of that id exists
 * CAIRN_PRECONDITION  it cannot be used: a set that no record refers to, or a value
 */
int pool_quarantine_restore(struct pool *pool, const char *id, char *ret_text, size_t n,
			    struct cairn_err *err);

/* Removes it permanently. CAIRN_NOT_FOUND: not in quarantine. */
int pool_quarantine_drop(struct pool *pool, const char *id, struct cairn_err *err);

#endif
