/* SPDX-License-Identifier: Apache-2.0 */

#include "tls_files.h"

#include "cairntest.h"

#include <stdio.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(cert, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

struct tls_pair tls_pair_make(const struct tls_pair_spec *spec)
{
	static long serial = 1;
	struct tls_pair pair = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};
	X509 *issuer = spec->issuer ? spec->issuer->cert : pair.cert;
	X509_NAME *name;

	assert_non_null(pair.key);
	assert_non_null(pair.cert);
	X509_set_version(pair.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(pair.cert), serial++);
	X509_gmtime_adj(X509_getm_notBefore(pair.cert), spec->not_before);
	X509_gmtime_adj(X509_getm_notAfter(pair.cert), spec->not_after);
	X509_set_pubkey(pair.cert, pair.key);
	name = X509_get_subject_name(pair.cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)spec->name, -1,
				   -1, 0);
	X509_set_issuer_name(pair.cert, X509_get_subject_name(issuer));
	if (!spec->issuer)
		add_extension(pair.cert, issuer, NID_basic_constraints, "critical,CA:TRUE");
	if (spec->alt)
		add_extension(pair.cert, issuer, NID_subject_alt_name, spec->alt);
	assert_true(X509_sign(pair.cert, spec->issuer ? spec->issuer->key : pair.key,
			      EVP_sha256()) > 0);
	return pair;
}

void tls_pair_done(struct tls_pair *pair)
{
	EVP_PKEY_free(pair->key);
	X509_free(pair->cert);
}

static FILE *create(const char *dir, const char *name)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	return f;
}

void tls_cert_write(const char *dir, const char *name, const struct tls_pair *pair)
{
	FILE *f = create(dir, name);

	assert_int_equal(PEM_write_X509(f, pair->cert), 1);
	fclose(f);
}

void tls_key_write(const char *dir, const char *name, const struct tls_pair *pair)
{
	FILE *f = create(dir, name);

	assert_int_equal(PEM_write_PrivateKey(f, pair->key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
}
