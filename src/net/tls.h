/* SPDX-License-Identifier: Apache-2.0 */

/* TLS settings that connections are made from.
 *
 * A `struct net_tls` holds a certificate pair and what is demanded of peers;
 * the pair may be replaced while connections live. A connection takes a
 * session from it once and keeps what it got.
 */
#ifndef CAIRN_NET_TLS_H
#define CAIRN_NET_TLS_H

struct cairn_err;
struct net_tls;
struct ssl_st; /* OpenSSL's SSL */

/* A new session from the settings as they are now; the caller frees it with
 * SSL_free(). ALPN, verification and, for a client, `server_name` (NULL for
 * the name in the settings) are set; the caller adds the BIOs and accept or
 * connect state. From any thread. */
int net_tls_session(struct net_tls *tls, const char *server_name, struct ssl_st **ret,
		    struct cairn_err *err);

#endif
