/* SPDX-License-Identifier: Apache-2.0 */

/* Creates OpenSSL contexts from PEM bytes and checked settings; part of
 * tls.h. */
#ifndef CAIRN_NET_TLS_CONTEXT_H
#define CAIRN_NET_TLS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct ssl_ctx_st;

/* PEM text as read from a file; `data` NULL when there is none. */
struct net_pem {
	const char *name; /* of the file, for messages */
	char *data;
	size_t len;
};

struct net_tls_context_spec {
	bool server;
	bool peer_optional;
	bool h2, http1;
	int min_version;
	const char *ciphers; /* OpenSSL's list for TLS 1.2; NULL is the default */
	char *groups;        /* OpenSSL's list, only read; NULL is the default */
	struct net_pem cert, key, ca;
};

/* The caller owns the context. Codes as in net_tls_server_new(). The times are
 * those of the certificate, 0 without one. */
int net_tls_context_new(const struct net_tls_context_spec *spec, struct ssl_ctx_st **ret,
			uint64_t *ret_not_before, uint64_t *ret_not_after, struct cairn_err *err);

#endif
