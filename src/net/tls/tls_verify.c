/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_settings.h"

#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static X509_STORE *store_of(const char *ca_pem)
{
	X509_STORE *store = X509_STORE_new();
	BIO *bio = BIO_new_mem_buf(ca_pem, (int)strlen(ca_pem));
	X509 *one;

	while (store && bio && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		(void)X509_STORE_add_cert(store, one);
		X509_free(one);
	}
	BIO_free(bio);
	ERR_clear_error(); /* PEM_read_bio_X509() reports the end of the text as an error */
	return store;
}

bool net_tls_verify_chain(struct ssl_st *session, struct x509_store_st *store)
{
	X509 *cert = SSL_get0_peer_certificate(session);
	X509_STORE_CTX *context = cert ? X509_STORE_CTX_new() : NULL;
	bool good =
		context &&
		X509_STORE_CTX_init(context, store, cert, SSL_get_peer_cert_chain(session)) == 1 &&
		X509_STORE_CTX_set_purpose(context, SSL_is_server(session)
							    ? X509_PURPOSE_SSL_CLIENT
							    : X509_PURPOSE_SSL_SERVER) == 1 &&
		X509_verify_cert(context) == 1;

	X509_STORE_CTX_free(context);
	ERR_clear_error();
	return good;
}

bool net_tls_peer_verify(struct ssl_st *ssl, const char *ca_pem)
{
	X509_STORE *store = SSL_get0_peer_certificate(ssl) ? store_of(ca_pem) : NULL;
	bool good = store && net_tls_verify_chain(ssl, store);

	X509_STORE_free(store);
	return good;
}
