/* SPDX-License-Identifier: Apache-2.0 */

/* A connected socket, with or without TLS, that never blocks.
 *
 * OpenSSL is driven through memory: what a read(2) brought is decrypted
 * completely before anything else happens, so nothing can rest inside OpenSSL
 * while the socket is silent but an incomplete record, which is kept here as it came
 * if `whole_only` is set; and all records of one write leave by one
 * send(2). Bytes pass through the loop's scratch buffers; only what the socket
 * does not take is kept here, and while anything is kept nothing more is
 * accepted.
 *
 * Belongs to one loop's thread. The owner watches the descriptor and calls in.
 */
#ifndef CAIRN_NET_WIRE_H
#define CAIRN_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/unsent.h"

struct cairn_err;
struct net_scratch;
struct ssl_st;

struct net_tls_socket {
	int fd;
	struct ssl_st *ssl; /* NULL for cleartext */
	struct net_scratch *scratch;
	bool established;
	bool was_full;
	bool at_end;     /* the peer has closed its side */
	bool failed;     /* a send or TLS error; errno-like text in the connection's error */
	bool whole_only; /* for the owner to set: TLS sees complete records only */
	const uint8_t *raw;
	size_t raw_len;
	uint8_t *begun; /* the record that is not complete yet */
	size_t begun_len;
	struct net_unsent unsent;
	size_t kept_blocked;  /* added to unsent while it was not empty: answers of TLS */
	uint32_t key_updates; /* including renegotiations, by the peer; the owner counts down */
};

/* Takes over `fd` and `ssl` (accept or connect state set; may be NULL). */
int net_tls_socket_init(struct net_tls_socket *wire, int fd, struct ssl_st *ssl,
			struct net_scratch *scratch, struct cairn_err *err);
void net_tls_socket_done(struct net_tls_socket *wire);

/* Continues the TLS handshake: 1 when complete, 0 when it waits for the peer.
 *
 * CAIRN_UNAVAILABLE  the peer failed the handshake or does not speak h2; the text says why
 */
int net_tls_socket_handshake(struct net_tls_socket *wire, struct cairn_err *err);

/* One read(2) of at most `max` bytes into the scratch buffer. 1 when there are bytes for TLS, 0 when
 * there are none now, CAIRN_UNAVAILABLE at the end or on an error. */
int net_tls_socket_fill(struct net_tls_socket *wire, size_t max, struct cairn_err *err);

/* True when the last read filled the buffer, so that more may be available. */
bool net_tls_socket_was_full(const struct net_tls_socket *wire);

/* The next piece of the received bytes, decrypted: 1 and the piece; 0 when all
 * were consumed; CAIRN_UNAVAILABLE when TLS is broken or closed. Call until it
 * is not 1. */
int net_tls_socket_next(struct net_tls_socket *wire, const uint8_t **ret_data, size_t *ret_n,
			struct cairn_err *err);

/* True while earlier bytes wait for the socket. */
bool net_tls_socket_blocked(const struct net_tls_socket *wire);

/* Sends or keeps all of it. Call it only when not blocked. */
int net_tls_socket_write(struct net_tls_socket *wire, const uint8_t *data, size_t n,
			 struct cairn_err *err);

/* Retries sending the kept bytes. */
int net_tls_socket_flush(struct net_tls_socket *wire, struct cairn_err *err);

/* Sends a TLS close notification, if that can be done at once. */
void net_tls_socket_close_notify(struct net_tls_socket *wire);

#endif
