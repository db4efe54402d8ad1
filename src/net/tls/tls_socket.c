/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_socket.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/limit_events.h"
#include "net/scratch.h"
#include "net/tls/tls_records.h"

#define KEY_UPDATES_AT_ONCE 32 /* in one read(2); no honest peer sends two */

static BIO_METHOD *wire_method;

static int bio_read(BIO *bio, char *out, int n)
{
	struct net_tls_socket *wire = BIO_get_data(bio);
	size_t part = wire->raw_len < (size_t)n ? wire->raw_len : (size_t)n;

	BIO_clear_retry_flags(bio);
	if (part == 0) {
		if (wire->at_end)
			return 0;
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, wire->raw, part);
	wire->raw += part;
	wire->raw_len -= part;
	return (int)part;
}

static int bio_write(BIO *bio, const char *data, int n)
{
	struct net_tls_socket *wire = BIO_get_data(bio);
	struct net_scratch *scratch = wire->scratch;

	BIO_clear_retry_flags(bio);
	if (n < 0 || (size_t)n > sizeof(scratch->cipher) - scratch->cipher_len)
		return -1;
	memcpy(scratch->cipher + scratch->cipher_len, data, (size_t)n);
	scratch->cipher_len += (size_t)n;
	return n;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	(void)bio;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
	wire_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cairn wire");
	if (!wire_method)
		return;
	BIO_meth_set_read(wire_method, bio_read);
	BIO_meth_set_write(wire_method, bio_write);
	BIO_meth_set_ctrl(wire_method, bio_ctrl);
}

/* Counts messages that make us derive keys or reply, because OpenSSL has no limit of its own. */
static void tls_socket_count_message(int writing, int version, int type, const void *bytes,
				     size_t n, SSL *ssl, void *arg)
{
	struct net_tls_socket *wire = arg;
	uint8_t message;

	(void)version;
	(void)ssl;
	if (writing || type != SSL3_RT_HANDSHAKE || !wire->established || n == 0)
		return;
	message = *(const uint8_t *)bytes;
	if (message != SSL3_MT_KEY_UPDATE && message != SSL3_MT_CLIENT_HELLO)
		return;
	/* OpenSSL processes everything from one read(2) before it returns. */
	if (++wire->key_updates > KEY_UPDATES_AT_ONCE) {
		net_limit_count(NET_LIMIT_KEY_UPDATES);
		wire->at_end = true;
		wire->raw_len = 0;
	}
}

int net_tls_socket_init(struct net_tls_socket *wire, int fd, struct ssl_st *ssl,
			struct net_scratch *scratch, struct cairn_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *bio;

	*wire = (struct net_tls_socket){
		.fd = fd, .ssl = ssl, .scratch = scratch, .established = !ssl};
	if (!ssl)
		return 0;
	pthread_once(&once, make_method);
	bio = wire_method ? BIO_new(wire_method) : NULL;
	if (!bio)
		return cairn_err_nomem(err, "TLS connection");
	BIO_set_data(bio, wire);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	SSL_set_msg_callback(ssl, tls_socket_count_message);
	SSL_set_msg_callback_arg(ssl, wire);
	/* An idle connection keeps no buffers. The data of a write is in memory that the loop's
	 * connections share, so it moves. */
	SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return 0;
}

void net_tls_socket_done(struct net_tls_socket *wire)
{
	SSL_free(wire->ssl);
	if (wire->unsent.data)
		net_unsent_clear(&wire->unsent, &wire->scratch->spare);
	free(wire->begun);
	if (wire->fd >= 0)
		close(wire->fd);
	*wire = (struct net_tls_socket){.fd = -1};
}

static int tls_socket_broken(struct cairn_err *err, int sys_errno, const char *what)
{
	cairn_err_sys(err, sys_errno, "%s", what);
	return cairn_err_recode(err, CAIRN_UNAVAILABLE);
}

/* Sends as much as the socket takes; returns the number of bytes. */
static int send_some(struct net_tls_socket *wire, const uint8_t *data, size_t n, size_t *ret_sent,
		     struct cairn_err *err)
{
	size_t at = 0;

	while (at < n) {
		ssize_t sent = send(wire->fd, data + at, n - at, MSG_NOSIGNAL);

		if (sent > 0) {
			at += (size_t)sent;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			break;
		wire->failed = true;
		return tls_socket_broken(err, errno, "send");
	}
	*ret_sent = at;
	return 0;
}

static int tls_socket_keep(struct net_tls_socket *wire, const uint8_t *data, size_t n,
			   struct cairn_err *err)
{
	if (n == 0)
		return 0;
	if (wire->unsent.data) /* the peer did not read what came before */
		wire->kept_blocked += n;
	if (net_unsent_add(&wire->unsent, &wire->scratch->spare, data, n))
		return 0;
	wire->failed = true;
	return cairn_err_nomem(err, "unsent bytes");
}

static int send_or_keep(struct net_tls_socket *wire, const uint8_t *data, size_t n,
			struct cairn_err *err)
{
	size_t sent = 0;
	int rc = 0;

	if (wire->failed)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the connection is broken");
	if (!wire->unsent.data)
		rc = send_some(wire, data, n, &sent, err);
	if (rc == 0)
		rc = tls_socket_keep(wire, data + sent, n - sent, err);
	return rc;
}

static int send_cipher(struct net_tls_socket *wire, struct cairn_err *err)
{
	struct net_scratch *scratch = wire->scratch;
	size_t n = scratch->cipher_len;

	scratch->cipher_len = 0;
	return n ? send_or_keep(wire, scratch->cipher, n, err) : 0;
}

static int tls_failure(struct net_tls_socket *wire, const char *what, struct cairn_err *err)
{
	unsigned long code = ERR_get_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;
	long verify = SSL_get_verify_result(wire->ssl);

	ERR_clear_error();
	/* Send the alert that tells the peer the reason. */
	(void)send_cipher(wire, NULL);
	wire->failed = true;
	if (verify != X509_V_OK)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "%s: certificate: %s", what,
				     X509_verify_cert_error_string(verify));
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "%s: %s", what,
			     reason ? reason : "the peer closed the connection");
}

static int check_alpn(struct net_tls_socket *wire, struct cairn_err *err)
{
	const unsigned char *proto = NULL;
	unsigned len = 0;

	SSL_get0_alpn_selected(wire->ssl, &proto, &len);
	if (len == 2 && memcmp(proto, "h2", 2) == 0)
		return 0;
	wire->failed = true;
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "TLS: the peer does not offer h2");
}

int net_tls_socket_handshake(struct net_tls_socket *wire, struct cairn_err *err)
{
	int rc, why;

	if (wire->established)
		return 1;
	ERR_clear_error();
	rc = SSL_do_handshake(wire->ssl);
	if (rc != 1) {
		why = SSL_get_error(wire->ssl, rc);
		if (why != SSL_ERROR_WANT_READ)
			return tls_failure(wire, "TLS handshake", err);
		return send_cipher(wire, err);
	}
	rc = send_cipher(wire, err);
	if (rc == 0)
		rc = check_alpn(wire, err);
	if (rc != 0)
		return rc;
	wire->established = true;
	return 1;
}

_Static_assert(NET_READ_BYTES >= 2 * NET_RECORD_BYTES_MAX, "there is room behind a begun record");

/* Puts the kept part of a record before the `n` new bytes, and keeps an incomplete record
 * at their end. */
static int take_whole(struct net_tls_socket *wire, size_t n, struct cairn_err *err)
{
	uint8_t *raw = wire->scratch->raw;
	uint8_t *begun = NULL;
	size_t whole;

	if (wire->begun_len > 0)
		memcpy(raw, wire->begun, wire->begun_len);
	n += wire->begun_len;
	whole = wire->ssl && wire->whole_only ? net_records_whole(raw, n) : n;
	if (whole < n) {
		begun = cairn_memdup(raw + whole, n - whole);
		if (!begun)
			return cairn_err_nomem(err, "TLS record");
	}
	free(wire->begun);
	wire->begun = begun;
	wire->begun_len = n - whole;
	wire->raw = raw;
	wire->raw_len = whole;
	return whole > 0;
}

int net_tls_socket_fill(struct net_tls_socket *wire, size_t max, struct cairn_err *err)
{
	size_t left = sizeof(wire->scratch->raw) - wire->begun_len;
	size_t room = max < left ? max : left;

	for (;;) {
		ssize_t n = recv(wire->fd, wire->scratch->raw + wire->begun_len, room, 0);

		if (n > 0) {
			wire->was_full = (size_t)n == room;
			return take_whole(wire, (size_t)n, err);
		}
		if (n == 0) {
			wire->at_end = true;
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the peer closed the connection");
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		if (errno != EINTR)
			return tls_socket_broken(err, errno, "receive");
	}
}

bool net_tls_socket_was_full(const struct net_tls_socket *wire)
{
	return wire->was_full;
}

int net_tls_socket_next(struct net_tls_socket *wire, const uint8_t **ret_data, size_t *ret_n,
			struct cairn_err *err)
{
	int n, rc, why;

	if (!wire->ssl) {
		*ret_data = wire->raw;
		*ret_n = wire->raw_len;
		wire->raw_len = 0;
		return *ret_n > 0;
	}
	ERR_clear_error();
	n = SSL_read(wire->ssl, wire->scratch->plain, sizeof(wire->scratch->plain));
	if (n > 0) {
		*ret_data = wire->scratch->plain;
		*ret_n = (size_t)n;
		/* An alert that refuses a renegotiation: the buffer is the loop's, and if the
		 * caller fails on these bytes the next connection would send it. */
		rc = send_cipher(wire, err);
		return rc == 0 ? 1 : rc;
	}
	why = SSL_get_error(wire->ssl, n);
	if (why != SSL_ERROR_WANT_READ)
		return tls_failure(wire, "TLS", err);
	/* Flush replies to key updates, and new tickets. */
	return send_cipher(wire, err);
}

bool net_tls_socket_blocked(const struct net_tls_socket *wire)
{
	return wire->unsent.data != NULL;
}

int net_tls_socket_write(struct net_tls_socket *wire, const uint8_t *data, size_t n,
			 struct cairn_err *err)
{
	size_t at = 0;

	if (!wire->ssl)
		return send_or_keep(wire, data, n, err);
	ERR_clear_error();
	while (at < n) {
		size_t done = 0;

		if (!SSL_write_ex(wire->ssl, data + at, n - at, &done))
			return tls_failure(wire, "TLS", err);
		at += done;
	}
	return send_cipher(wire, err);
}

int net_tls_socket_flush(struct net_tls_socket *wire, struct cairn_err *err)
{
	size_t sent = 0;
	int rc;

	if (!wire->unsent.data)
		return 0;
	rc = send_some(wire, wire->unsent.data + wire->unsent.at, net_unsent_len(&wire->unsent),
		       &sent, err);
	net_unsent_drop(&wire->unsent, &wire->scratch->spare, sent);
	if (!wire->unsent.data)
		wire->kept_blocked = 0;
	return rc;
}

void net_tls_socket_close_notify(struct net_tls_socket *wire)
{
	/* Behind unsent bytes the alert would never leave, or arrive inside of a record. */
	if (!wire->ssl || !wire->established || wire->failed || wire->unsent.data)
		return;
	ERR_clear_error();
	SSL_shutdown(wire->ssl);
	ERR_clear_error();
	(void)send_cipher(wire, NULL);
}
