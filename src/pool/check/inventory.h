/* SPDX-License-Identifier: Apache-2.0 */

/* A consistent copy of the whole catalogue, for checks.
 *
 * A commit changes records and indexes together, so a contradiction within one
 * state is damage and not an operation in progress: a fault found here needs no
 * second look. It is held in memory, about a kilobyte for each snapshot.
 *
 * Read-only after pool_inventory_take().
 */
#ifndef CAIRN_POOL_INVENTORY_H
#define CAIRN_POOL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/catalogue/record.h"

struct cairn_err;
struct catalogue;

enum inventory_state {
	INVENTORY_GOOD,
	INVENTORY_DAMAGED,
	INVENTORY_NEWER, /* written by a newer version of cairn: leave it alone */
};

struct inventory_volume {
	uint64_t bits; /* of the key */
	enum inventory_state state;
	const char *reason;          /* why it is damaged */
	struct record_volume record; /* if it is good */
};

struct inventory_snapshot {
	uint64_t number; /* of the key */
	enum inventory_state state;
	const char *reason;            /* why it is damaged */
	struct record_snapshot record; /* if it is good */
};

/* An index entry: its kind and parts as in struct ledger_entry; kind '?' and the
 * key for one that cannot be decoded. */
struct inventory_entry {
	char kind;
	uint64_t a;
	uint64_t b;
	char *name;   /* of 'w' and 'm' */
	uint8_t *key; /* of '?' */
	size_t key_len;
};

/* A value that is neither record nor index and is damaged or not understood. */
struct inventory_other {
	uint8_t *key;
	size_t key_len;
};

struct inventory {
	struct inventory_volume *volumes; /* ascending */
	size_t n_volumes;
	struct inventory_snapshot *snapshots; /* ascending */
	size_t n_snapshots;
	struct inventory_entry *entries; /* in the order of keys */
	size_t n_entries;
	struct inventory_other *others;
	size_t n_others;
	uint64_t last_number; /* 0: none was assigned, or the counter is damaged */
};

int pool_inventory_take(struct catalogue *cat, struct inventory **ret, struct cairn_err *err);
void pool_inventory_free(struct inventory *inv);
CAIRN_DEFINE_CLEANUP(struct inventory, pool_inventory_free);

/* NULL when there is no such record. */
const struct inventory_volume *pool_inventory_find_volume(const struct inventory *inv,
							  uint64_t bits);
const struct inventory_snapshot *pool_inventory_find_snapshot(const struct inventory *inv,
							      uint64_t number);

/* The same, but NULL also for a record that is not good. */
const struct record_volume *pool_inventory_good_volume(const struct inventory *inv, uint64_t bits);
const struct record_snapshot *pool_inventory_good_snapshot(const struct inventory *inv,
							   uint64_t number);

/* True if there is such an entry of kind c, h, l or t. */
bool pool_inventory_has_pair(const struct inventory *inv, char kind, uint64_t a, uint64_t b);

/* The first entry of the kind whose second part (of a name: its value) is `b`,
 * after `after` (NULL: from the start); NULL when there is none. */
const struct inventory_entry *pool_inventory_entry_of(const struct inventory *inv, char kind,
						      uint64_t b,
						      const struct inventory_entry *after);

/* The value of a name: 'w' with a 0, or 'm' with its volume. */
const struct inventory_entry *pool_inventory_find_name(const struct inventory *inv, char kind,
						       uint64_t a, const char *name);

#endif
