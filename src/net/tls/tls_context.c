/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_context.h"

#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Forward secret and authenticated; what every TLS 1.2 peer of the last ten
 * years has. */
#define DEFAULT_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Certificates in one chain or bundle. The file is ours, but it may be the wrong one. */
#define CERTIFICATES_MAX 1024

CAIRN_DEFINE_CLEANUP(SSL_CTX, SSL_CTX_free);
CAIRN_DEFINE_CLEANUP(X509, X509_free);
CAIRN_DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free);
CAIRN_DEFINE_CLEANUP(BIO, BIO_free_all);

/* OpenSSL keeps errors in a queue of the thread: report the first and drop the others. */
static int tls_context_fail(struct cairn_err *err, int code, const char *what, const char *name)
{
	unsigned long e = ERR_get_error();
	const char *reason = e ? ERR_reason_error_string(e) : NULL;

	ERR_clear_error();
	return cairn_err_set(err, code, "%s '%s'%s%s", what, name, reason ? ": " : "",
			     reason ? reason : "");
}

static int tls_context_nomem(struct cairn_err *err)
{
	ERR_clear_error();
	return cairn_err_nomem(err, "TLS context");
}

/* Refuses a key with a passphrase: OpenSSL's default would ask for it on a terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static BIO *bio_of(const struct net_pem *pem)
{
	return BIO_new_mem_buf(pem->data, (int)pem->len);
}

static uint64_t seconds_of(const ASN1_TIME *time)
{
	struct tm tm;
	time_t t;

	if (ASN1_TIME_to_tm(time, &tm) != 1)
		return 0;
	t = timegm(&tm);
	return t > 0 ? (uint64_t)t : 0;
}

static int use_chain(SSL_CTX *ctx, BIO *bio, const char *name, struct cairn_err *err)
{
	for (unsigned n = 0; n < CERTIFICATES_MAX; n++) {
		cairn_cleanup(X509_freep) X509 *cert = NULL;

		cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
		/* No further PEM block: the end of the text. */
		if (!cert && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
			ERR_clear_error();
			return 0;
		}
		if (!cert)
			return tls_context_fail(err, CAIRN_INVALID, "bad certificate in", name);
		if (SSL_CTX_add1_chain_cert(ctx, cert) != 1)
			return tls_context_fail(err, CAIRN_INVALID, "cannot use certificate chain",
						name);
	}
	return cairn_err_set(err, CAIRN_INVALID, "too many certificates in '%s'", name);
}

static int use_certificate(SSL_CTX *ctx, const struct net_pem *pem, uint64_t *ret_not_before,
			   uint64_t *ret_not_after, struct cairn_err *err)
{
	cairn_cleanup(BIO_free_allp) BIO *bio = bio_of(pem);
	cairn_cleanup(X509_freep) X509 *cert = NULL;

	if (!bio)
		return tls_context_nomem(err);
	cert = PEM_read_bio_X509_AUX(bio, NULL, no_passphrase, NULL);
	if (!cert)
		return tls_context_fail(err, CAIRN_INVALID, "no certificate in", pem->name);
	if (SSL_CTX_use_certificate(ctx, cert) != 1)
		return tls_context_fail(err, CAIRN_INVALID, "cannot use certificate", pem->name);
	*ret_not_before = seconds_of(X509_get0_notBefore(cert));
	*ret_not_after = seconds_of(X509_get0_notAfter(cert));
	return use_chain(ctx, bio, pem->name, err);
}

static int use_key(SSL_CTX *ctx, const struct net_tls_context_spec *spec, struct cairn_err *err)
{
	cairn_cleanup(BIO_free_allp) BIO *bio = bio_of(&spec->key);
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *key = NULL;

	if (!bio)
		return tls_context_nomem(err);
	key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
	if (!key)
		return tls_context_fail(err, CAIRN_INVALID, "no private key without passphrase in",
					spec->key.name);
	/* Also refuses a key that does not fit the certificate. */
	if (SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1)
		return 0;
	ERR_clear_error();
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "private key '%s' does not belong to certificate '%s'", spec->key.name,
			     spec->cert.name);
}

/* Sets the trusted authorities. A server also sends their names to clients, which choose a
 * certificate by them. */
static int tls_context_trust(SSL_CTX *ctx, const struct net_tls_context_spec *spec,
			     struct cairn_err *err)
{
	cairn_cleanup(BIO_free_allp) BIO *bio = bio_of(&spec->ca);
	unsigned n;

	if (!bio)
		return tls_context_nomem(err);
	for (n = 0; n < CERTIFICATES_MAX; n++) {
		cairn_cleanup(X509_freep) X509 *cert = NULL;

		cert = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
		if (!cert && n > 0 &&
		    ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE) {
			ERR_clear_error();
			return 0;
		}
		if (!cert)
			return tls_context_fail(err, CAIRN_INVALID,
						"no good certificate authority in", spec->ca.name);
		if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) != 1 ||
		    (spec->server && SSL_CTX_add_client_CA(ctx, cert) != 1))
			return tls_context_fail(err, CAIRN_INVALID, "cannot trust", spec->ca.name);
	}
	return cairn_err_set(err, CAIRN_INVALID, "too many certificates in '%s'", spec->ca.name);
}

static int verify_peers(SSL_CTX *ctx, const struct net_tls_context_spec *spec,
			struct cairn_err *err)
{
	static const unsigned char id[] = "cairn";
	int mode = SSL_VERIFY_PEER;

	if (spec->server && !spec->ca.data)
		return 0;
	if (spec->server && !spec->peer_optional)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(ctx, mode, NULL);
	SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
	if (spec->ca.data)
		return tls_context_trust(ctx, spec, err);
	if (SSL_CTX_set_default_verify_paths(ctx) != 1)
		return tls_context_fail(err, CAIRN_INTERNAL, "cannot load authorities of",
					"the system");
	return 0;
}

/* Selects the first of our protocols that the client offers. A client without ALPN gets a
 * session too; the protocol on it decides. */
static int alpn_select(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
		       const unsigned char *offered, unsigned int n, void *arg)
{
	const char *ours = arg;
	unsigned char *chosen;

	(void)ssl;
	if (SSL_select_next_proto(&chosen, ret_len, (const unsigned char *)ours,
				  (unsigned)strlen(ours), offered, n) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static int set_alpn(SSL_CTX *ctx, const struct net_tls_context_spec *spec, struct cairn_err *err)
{
	static char both[] = "\x02h2\x08http/1.1";
	static char only_h2[] = "\x02h2";
	static char only_http1[] = "\x08http/1.1";
	char *list = spec->h2 && spec->http1 ? both : spec->h2 ? only_h2 : only_http1;

	if (spec->server)
		SSL_CTX_set_alpn_select_cb(ctx, alpn_select, list);
	else if (SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)list,
					 (unsigned)strlen(list)) != 0)
		return tls_context_nomem(err);
	return 0;
}

static int tls_context_set_algorithms(SSL_CTX *ctx, const struct net_tls_context_spec *spec,
				      struct cairn_err *err)
{
	if (SSL_CTX_set_min_proto_version(ctx, spec->min_version) != 1)
		return tls_context_fail(err, CAIRN_INVALID, "cannot set", "the TLS version");
	/* An empty list means TLS 1.3 only, whose suites are set elsewhere. */
	if (spec->min_version < TLS1_3_VERSION || (spec->ciphers && *spec->ciphers)) {
		const char *list = spec->ciphers ? spec->ciphers : DEFAULT_CIPHERS;

		if (SSL_CTX_set_cipher_list(ctx, list) != 1)
			return tls_context_fail(err, CAIRN_INVALID,
						"OpenSSL offers none of the cipher suites", list);
	}
	if (spec->groups && SSL_CTX_ctrl(ctx, SSL_CTRL_SET_GROUPS_LIST, 0, spec->groups) != 1) {
		ERR_clear_error();
		return cairn_err_set(err, CAIRN_INVALID,
				     "this OpenSSL (%s) does not offer all of the curves %s",
				     OpenSSL_version(OPENSSL_VERSION_STRING), spec->groups);
	}
	return 0;
}

static void set_behaviour(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* Frees 34 KB of record buffers of an idle connection. */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
}

int net_tls_context_new(const struct net_tls_context_spec *spec, struct ssl_ctx_st **ret,
			uint64_t *ret_not_before, uint64_t *ret_not_after, struct cairn_err *err)
{
	cairn_cleanup(SSL_CTX_freep) SSL_CTX *ctx = NULL;
	uint64_t not_before = 0, not_after = 0;
	int rc;

	ctx = SSL_CTX_new(spec->server ? TLS_server_method() : TLS_client_method());
	if (!ctx)
		return tls_context_nomem(err);
	set_behaviour(ctx);
	rc = tls_context_set_algorithms(ctx, spec, err);
	if (rc == 0)
		rc = set_alpn(ctx, spec, err);
	if (rc == 0 && spec->cert.data)
		rc = use_certificate(ctx, &spec->cert, &not_before, &not_after, err);
	if (rc == 0 && spec->cert.data)
		rc = use_key(ctx, spec, err);
	if (rc == 0)
		rc = verify_peers(ctx, spec, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(ctx);
	*ret_not_before = not_before;
	*ret_not_after = not_after;
	return 0;
}
