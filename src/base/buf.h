/* SPDX-License-Identifier: Apache-2.0 */

/* Growable byte buffer with a maximum.
 *
 * All data whose size a peer or a file determines is collected in one of these, so that it
 * cannot exhaust memory. The first failed append is sticky: later appends do nothing and
 * cairn_buf_failed() is true, so a sequence of appends needs one check at its end.
 */
#ifndef CAIRN_BASE_BUF_H
#define CAIRN_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max;
	bool failed;
};

#define CAIRN_BUF_INIT(maximum)  \
	{                        \
		.max = (maximum) \
	}

void cairn_buf_init(struct cairn_buf *buf, size_t max);

/* Frees the bytes; the buffer may be used again. Also a cleanup function. */
void cairn_buf_done(struct cairn_buf *buf);

/* The same for secrets, which are overwritten first. */
void cairn_buf_wipe(struct cairn_buf *buf);

/* Empties the buffer, keeps its memory, clears a failure. */
void cairn_buf_reset(struct cairn_buf *buf);

/* Makes room for `n` more bytes and returns a pointer to it, or NULL with the failure set.
 * The caller then adds the number of bytes written to `len`. */
void *cairn_buf_reserve(struct cairn_buf *buf, size_t n);

void cairn_buf_add(struct cairn_buf *buf, const void *data, size_t n);
void cairn_buf_adds(struct cairn_buf *buf, const char *text);
void cairn_buf_addc(struct cairn_buf *buf, char c);
void cairn_buf_addf(struct cairn_buf *buf, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Unsigned LEB128: 7 bits a byte, lowest first. */
void cairn_buf_add_varint(struct cairn_buf *buf, uint64_t value);

/* Drops `n` bytes from the front. */
void cairn_buf_consume(struct cairn_buf *buf, size_t n);

bool cairn_buf_failed(const struct cairn_buf *buf);

/* NUL-terminates the bytes and passes them to the caller; the buffer is empty afterwards.
 * NULL if an append failed or memory is short. */
char *cairn_buf_take_string(struct cairn_buf *buf);

#define cairn_auto_buf        cairn_cleanup(cairn_buf_done)
#define cairn_auto_secret_buf cairn_cleanup(cairn_buf_wipe)

#endif
