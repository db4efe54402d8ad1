/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_pem.h"

#include <stdbool.h>
#include <stddef.h>

#include <openssl/bio.h>
#include <openssl/pem.h>

#include "base/mem.h"

/* The text of a memory BIO, which is freed. */
static char *pem_text(BIO *bio, bool written)
{
	char *data = NULL, *text = NULL;
	long n = bio && written ? BIO_get_mem_data(bio, &data) : 0;

	if (n > 0)
		text = cairn_strndup(data, (size_t)n);
	BIO_free(bio);
	return text;
}

char *net_tls_pem_certificate(const X509 *certificate)
{
	BIO *bio = BIO_new(BIO_s_mem());

	return pem_text(bio, bio && PEM_write_bio_X509(bio, certificate) == 1);
}

char *net_tls_pem_request(const X509_REQ *request)
{
	BIO *bio = BIO_new(BIO_s_mem());

	return pem_text(bio, bio && PEM_write_bio_X509_REQ(bio, request) == 1);
}

char *net_tls_pem_key(const EVP_PKEY *key)
{
	BIO *bio = BIO_new(BIO_s_secmem());

	return pem_text(bio,
			bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
}
