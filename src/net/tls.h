/* SPDX-License-Identifier: Apache-2.0 */

/* TLS settings that connections are made from.
 *
 * A `struct net_tls` holds a certificate pair and what is demanded of peers;
 * the pair may be replaced while connections live. A connection takes a
 * session from it once and keeps what it got: sessions made before a reload
 * stay as they are, later ones have the new pair.
 *
 * There is no session resumption: connections live long, and a peer that comes
 * back is checked again, against the authorities as they are by then.
 *
 * Thread-safe; files are read only when it is made and by net_tls_reload().
 */
#ifndef CAIRN_NET_TLS_H
#define CAIRN_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_tls;
struct ssl_st; /* OpenSSL's SSL */

/* A certificate chain, a key or a bundle of authorities; no real one is near. */
#define NET_TLS_FILE_MAX (1U << 20)

/* What both sides may set; strings are copied. */
struct net_tls_options {
	/* PEM files. A server needs both; a client has both or neither. The first
	 * certificate is ours, the others its chain. */
	const char *cert_file;
	const char *key_file;

	/* Authorities that the peer's certificate must come from, as a file or as
	 * PEM text. A server that has them demands a certificate, or only looks at
	 * one that is shown if `peer_optional`; a client without them trusts the
	 * system's. */
	const char *ca_file;
	const char *ca_pem;
	bool peer_optional;

	/* Names of tls_names.h; NULL or "" takes the default: TLS 1.2, every
	 * AEAD suite, OpenSSL's curves. */
	const char *min_version;
	const char *cipher_suites;
	const char *curves;

	/* Protocols for ALPN, in order of preference; at least one. */
	bool h2;
	bool http1;

	/* For a client: the name that the server's certificate must have, DNS or
	 * IP, when net_tls_session() is given none. */
	const char *server_name;
};

/* CAIRN_INVALID       an option is wrong, or a file holds no certificate or key
 * CAIRN_NOT_FOUND     a file is not there
 * CAIRN_PRECONDITION  certificate and key do not belong together
 * CAIRN_NO_SPACE      out of memory
 */
int net_tls_server_new(const struct net_tls_options *options, struct net_tls **ret,
		       struct cairn_err *err);
int net_tls_client_new(const struct net_tls_options *options, struct net_tls **ret,
		       struct cairn_err *err);

/* Sessions outlive it. Accepts NULL. */
void net_tls_free(struct net_tls *tls);
CAIRN_DEFINE_CLEANUP(struct net_tls, net_tls_free);

/* A new session from the settings as they are now; the caller frees it with
 * SSL_free(). ALPN, verification and, for a client, `server_name` (NULL for
 * the name in the settings) are set; the caller adds the BIOs and accept or
 * connect state. From any thread.
 *
 * CAIRN_INVALID   a client without any server name
 * CAIRN_NO_SPACE  out of memory
 */
int net_tls_session(struct net_tls *tls, const char *server_name, struct ssl_st **ret,
		    struct cairn_err *err);

/* Reads the files again. Settings change only when everything in them is good;
 * on any error they stay as they were. Returns 1 when they changed, 0 when the
 * files hold what was loaded last; or a code of net_tls_server_new(). From any
 * thread. */
int net_tls_reload(struct net_tls *tls, struct cairn_err *err);

/* What is in use. Without a certificate both times are 0. */
struct net_tls_info {
	uint64_t reloads;    /* that changed something */
	uint64_t not_before; /* of our certificate, seconds since 1970 */
	uint64_t not_after;
};

void net_tls_info(struct net_tls *tls, struct net_tls_info *ret);

/* The directories that hold the files, each once and owned by `tls`; returns
 * how many, at most 3. */
size_t net_tls_directories(const struct net_tls *tls, const char *ret_dirs[3]);

/* The peer's certificate subject in one line, for a session whose handshake is
 * over; false when the peer showed none. */
bool net_tls_peer_subject(const struct ssl_st *session, char *out, size_t cap);

/* Only its common name; false also when it has none or several, or when it does
 * not fit or holds a NUL. */
bool net_tls_peer_name(const struct ssl_st *session, char *out, size_t cap);

/* Is the certificate that the client showed one of these authorities (PEM), and good
 * now? The handshake asked the same of the authorities of its time; a connection may
 * outlast them. */
bool net_tls_peer_verify(struct ssl_st *ssl, const char *ca_pem);

#endif
