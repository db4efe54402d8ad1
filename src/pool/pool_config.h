/* SPDX-License-Identifier: Apache-2.0 */

/* The file `cairn.pool`, which makes a directory a pool: the choices that
 * pool_create() made and the objects that it created, so that every later call
 * opens the pool the same way and pool_destroy() removes only those objects.
 * Text, one "key value" per line; the last line is a checksum of the others.
 */
#ifndef CAIRN_POOL_MARKER_H
#define CAIRN_POOL_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;
struct cairn_err;

#define MARKER_NAME      "cairn.pool"
#define MARKER_VERSION   1
#define MARKER_BYTES_MAX 4096

struct marker {
	bool ready;       /* false: pool_create() did not finish */
	bool made_dir;    /* pool_create() created the directory itself */
	char backend[16]; /* btrfs, reflink, copy, rbd */
	char image[8];    /* btrfs or xfs: a loop-mounted image; none */
	char id[33];
	uint64_t retention_ms;
	uint32_t granularity;
};

/* `text` has a NUL after its `n` bytes.
 *
 * CAIRN_DATA_LOSS      damaged or truncated
 * CAIRN_UNIMPLEMENTED  a newer version
 */
int pool_config_decode(const char *text, size_t n, struct marker *ret, struct cairn_err *err);

/* Adds it to `text`, which has room for MARKER_BYTES_MAX. */
int pool_config_encode(const struct marker *m, struct cairn_buf *text, struct cairn_err *err);

/* What the lines of a damaged one say, as far as they can be read; the rest is 0. */
void pool_config_salvage(const char *text, size_t n, struct marker *ret);

/* Reads it from the pool's directory; CAIRN_NOT_FOUND: no pool there. */
int pool_config_read(int dir_fd, struct marker *ret, struct cairn_err *err);

/* Writes it durably. */
int pool_config_write(int dir_fd, const struct marker *marker, struct cairn_err *err);

#endif
