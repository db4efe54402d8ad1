/* SPDX-License-Identifier: Apache-2.0 */

/* Certificates made by the test itself, so that no test carries an expiry date. */
#ifndef CAIRN_TESTS_UNIT_TLS_FILES_H
#define CAIRN_TESTS_UNIT_TLS_FILES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

/* An authority or a leaf: its key and its certificate. */
struct tls_pair {
	EVP_PKEY *key;
	X509 *cert;
};

struct tls_pair_spec {
	const char *name;              /* common name */
	const char *alt;               /* subjectAltName, "DNS:a,IP:127.0.0.1"; NULL: left out */
	const struct tls_pair *issuer; /* NULL: signs itself, as an authority */
	long not_before, not_after;    /* seconds from now */
};

struct tls_pair tls_pair_make(const struct tls_pair_spec *spec);
void tls_pair_done(struct tls_pair *pair);

/* Writes DIR/NAME as PEM. */
void tls_cert_write(const char *dir, const char *name, const struct tls_pair *pair);
void tls_key_write(const char *dir, const char *name, const struct tls_pair *pair);

#endif
