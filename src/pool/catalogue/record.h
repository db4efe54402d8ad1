/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue's records of volumes and snapshots, and their encoding: a
 * version byte, then the fields in order, numbers as varints and text with its
 * length before it. The catalogue adds the checksum.
 *
 * Keys (numbers and volume bits as 16 hex digits, so that byte order is numeric
 * order):
 *   n                    the last snapshot number assigned
 *   v/<vol>              volume record
 *   w/<name>             a volume's name -> <vol>
 *   s/<num>              snapshot record
 *   l/<vol>/<num>        a volume's snapshots, tombstones included
 *   m/<vol>/<name>       a snapshot's name -> <num> of its newest holder
 *   c/<num>/<child num>  snapshots whose predecessor it is
 *   h/<num>/<vol>        volumes whose next snapshot is compared with it
 *   t/<ns>/<num>         tombstones by the time they expire
 *   i/<id>               objects to clean up: see leftover.h
 *   x/<key>              a front end's notes: see note.h
 *   q/<ns>/<key>         damaged bytes that a repair replaced: see quarantine.h
 */
#ifndef CAIRN_POOL_RECORD_H
#define CAIRN_POOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_buf;
struct cairn_err;

struct record_volume {
	uint64_t volume;
	char name[POOL_NAME_MAX + 1];
	uint64_t size;
	uint64_t created_ns;
	uint64_t origin; /* number of the snapshot it was made from; 0: none */
	uint64_t origin_volume;
	uint64_t head; /* number of the snapshot that its next one is compared with; 0: none */
	bool deleted;
	uint64_t retention_ms;                  /* of its change sets; 0: the pool's */
	uint32_t granularity;                   /* of its change sets; 0: the pool's */
	char restoring[POOL_RESTORING_MAX + 1]; /* the backup of an unfinished restore, or "" */
};

struct record_snapshot {
	uint64_t number;
	uint64_t volume;
	char name[POOL_NAME_MAX + 1]; /* "" is hidden: created for a clone, already deleted */
	uint64_t size;
	uint64_t created_ns;
	uint64_t parent; /* number of its predecessor; 0: none */
	uint64_t parent_volume;
	bool deleted;
	bool has_data;
	uint64_t expires_ns; /* of a deleted one */
	uint64_t revision;   /* changed when a volume begins to depend on the data */
	enum pool_set_state set;
	uint64_t set_generation; /* part of the set's file name */
	uint64_t set_extents;
	uint64_t set_changed_bytes;
	uint64_t set_zero_bytes;
};

/* Append the encoded record; a failure sticks in the buffer. */
void pool_record_volume_encode(const struct record_volume *volume, struct cairn_buf *out);
void pool_record_snapshot_encode(const struct record_snapshot *snapshot, struct cairn_buf *out);

/* CAIRN_DATA_LOSS      impossible contents
 * CAIRN_UNIMPLEMENTED  a newer version
 */
int pool_record_volume_decode(const uint8_t *data, size_t n, struct record_volume *ret,
			      struct cairn_err *err);
int pool_record_snapshot_decode(const uint8_t *data, size_t n, struct record_snapshot *ret,
				struct cairn_err *err);

#endif
