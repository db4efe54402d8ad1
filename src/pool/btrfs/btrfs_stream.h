/* SPDX-License-Identifier: Apache-2.0 */

/* Decoder of btrfs's send stream that extracts which ranges of one file
 * changed.
 *
 * Bytes in, ranges out; it does no I/O. The stream is a header and commands of
 * length, number, CRC-32C and attributes. Commands that say where a file's
 * bytes changed are reported; those that change only times, owners or other
 * attributes are skipped. Commands that change names, and unknown ones, end the
 * decoding with CAIRN_UNIMPLEMENTED, because their effect on the file's bytes
 * is not known.
 */
#ifndef CAIRN_POOL_BTRFS_STREAM_H
#define CAIRN_POOL_BTRFS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct stream;

/* Longest command accepted. The kernel's own limit is 64 KiB without file data
 * in protocol 1; a damaged length must not make us wait for 4 GiB. */
#define STREAM_COMMAND_MAX (256U << 10)

struct stream_sink {
	/* Bytes [offset, offset + length) of the file may have changed. In no
	 * particular order. */
	int (*range)(void *arg, uint64_t offset, uint64_t length, struct cairn_err *err);
	void *arg;
};

/* `path` is the file, as named in the stream; not copied. */
int btrfs_stream_new(const char *path, struct stream_sink sink, struct stream **ret,
		     struct cairn_err *err);
void btrfs_stream_free(struct stream *stream);
CAIRN_DEFINE_CLEANUP(struct stream, btrfs_stream_free);

/* Feeds the next bytes; chunks may end anywhere. An error is final.
 *
 * CAIRN_DATA_LOSS      not a send stream, a checksum is wrong, or a command
 *                      lacks a required attribute
 * CAIRN_UNIMPLEMENTED  another version, or a command described above
 */
int btrfs_stream_feed(struct stream *stream, const void *data, size_t n, struct cairn_err *err);

/* True once the end command was seen. Without it the reported ranges are
 * incomplete. */
bool btrfs_stream_ended(const struct stream *stream);

#endif
