/* SPDX-License-Identifier: Apache-2.0 */

/* TLS settings from which sessions are created.
 *
 * A `struct net_tls` holds a certificate pair and the requirements for peers;
 * the pair may be replaced while connections are open. Each connection creates
 * one session from it: sessions created before a reload are not changed, later
 * ones use the new pair.
 *
 * There is no session resumption: connections are long-lived, and a peer that
 * reconnects is verified again, against the current authorities.
 *
 * Thread-safe; files are read only on creation and by net_tls_reload().
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
struct x509_store_st;

/* Maximum size of a certificate chain, a key or a bundle of authorities; real
 * ones are far smaller. */
#define NET_TLS_FILE_MAX (1U << 20)

/* Options of both sides; strings are copied. */
struct net_tls_options {
	/* PEM files. A server needs both; a client has both or neither. The first
	 * certificate is ours, the others its chain. */
	const char *cert_file;
	const char *key_file;

	/* Authorities that must have signed the peer's certificate, as a file or
	 * as PEM text. A server that has them requires a certificate, or with
	 * `peer_optional` only verifies one that is sent; a client without them
	 * trusts the system's. */
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

	/* For a client: the DNS name or IP address that the server's certificate
	 * must have, if net_tls_session() is called without one. */
	const char *server_name;
};

/* CAIRN_INVALID       an option is invalid, or a file does not hold a certificate or key
 * CAIRN_NOT_FOUND     a file does not exist
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

/* A new session from the current settings; the caller frees it with SSL_free().
 * ALPN, verification and, for a client, `server_name` (NULL for the name in the
 * settings) are set; the caller adds the BIOs and accept or connect state. From
 * any thread.
 *
 * CAIRN_INVALID   a client without any server name
 * CAIRN_NO_SPACE  out of memory
 */
int net_tls_session(struct net_tls *tls, const char *server_name, struct ssl_st **ret,
		    struct cairn_err *err);

/* Reads the files again. The settings change only if all files are valid; on
 * any error they are kept. Returns 1 when they changed, 0 when the files are
 * the same as those loaded last; or a code of net_tls_server_new(). From any
 * thread. */
int net_tls_reload(struct net_tls *tls, struct cairn_err *err);

/* The certificate in use. Without one both times are 0. */
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
 * complete; false when the peer sent no certificate. */
bool net_tls_peer_subject(const struct ssl_st *session, char *out, size_t cap);

/* Only its common name; false also when it has none or several, or when it does
 * not fit or holds a NUL. */
bool net_tls_peer_name(const struct ssl_st *session, char *out, size_t cap);

/* True if the client's certificate is signed by one of these authorities (PEM) and
 * is valid now. The handshake checked it against the authorities at that time; a
 * connection may outlast them. */
bool net_tls_peer_verify(struct ssl_st *ssl, const char *ca_pem);

/* True if the peer of a session of `tls` showed no certificate, or one that the current
 * authorities signed and that has not expired: a connection may outlast the authorities of its
 * handshake. `seen` is 0 before the first call for a session; it keeps the chain from being
 * verified again without a reload. From any thread. */
bool net_tls_trusts(struct net_tls *tls, struct ssl_st *session, uint64_t *seen);

/* The same for given authorities; part of the two above. */
bool net_tls_verify_chain(struct ssl_st *session, struct x509_store_st *store);

#endif
