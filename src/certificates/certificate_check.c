/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "certificates/certificate_x509.h"

#define BUNDLE_BYTES_MAX (64U << 10)
#define HOST_MAX         160

void certificates_pair_done(struct certificates_pair *pair)
{
	if (pair->key)
		explicit_bzero(pair->key, strlen(pair->key));
	free(pair->key);
	free(pair->crt);
	*pair = (struct certificates_pair){0};
}

static BIO *reader_of(const char *pem)
{
	return pem ? BIO_new_mem_buf(pem, (int)strlen(pem)) : NULL;
}

/* The certificates of a text; those after something unreadable are not seen. */
static STACK_OF(X509) * certificates_of(const char *pem)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	BIO *bio = reader_of(pem);
	X509 *one;

	while (all && bio && (one = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
		if (sk_X509_push(all, one) <= 0)
			X509_free(one);
	BIO_free(bio);
	ERR_clear_error(); /* PEM_read_bio_X509() reports the end of the text as an error */
	return all;
}

static void free_all(STACK_OF(X509) * all)
{
	sk_X509_pop_free(all, X509_free);
}

X509 *certificates_x509_first(const char *pem)
{
	BIO *bio = reader_of(pem);
	X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

	BIO_free(bio);
	ERR_clear_error();
	return x;
}

static bool key_fits(X509 *x, const char *pem)
{
	BIO *bio = reader_of(pem);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	bool good = key && X509_check_private_key(x, key) == 1;

	EVP_PKEY_free(key);
	BIO_free(bio);
	ERR_clear_error();
	return good;
}

/* NULL if the certificate is good for a server, else why not. */
static const char *distrust(X509 *x, const char *bundle, uint64_t now_s)
{
	STACK_OF(X509) *trusted = certificates_of(bundle);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	const char *why = "out of memory";

	for (int i = 0; store && i < sk_X509_num(trusted); i++)
		(void)X509_STORE_add_cert(store, sk_X509_value(trusted, i));
	if (store && context && X509_STORE_CTX_init(context, store, x, NULL) == 1 &&
	    X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER) == 1) {
		X509_STORE_CTX_set_time(context, 0, (time_t)now_s);
		why = X509_verify_cert(context) == 1
			      ? NULL
			      : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
	}
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	free_all(trusted);
	ERR_clear_error();
	return why;
}

/* Is the authority's name one that cairn gives? deploy/certificates names it after the service. */
static bool has_own_issuer(X509 *x, const char *service, const char *ns)
{
	cairn_auto_free char *by_hand = cairn_printf("%s.%s authority", service, ns);
	char name[HOST_MAX];
	int n = X509_NAME_get_text_by_NID(X509_get_issuer_name(x), NID_commonName, name,
					  sizeof(name));

	return n > 0 && by_hand &&
	       (strcmp(name, by_hand) == 0 ||
		strncmp(name, CERTIFICATES_AUTHORITY, strlen(CERTIFICATES_AUTHORITY)) == 0);
}

bool certificates_is_own(const char *crt, const char *service, const char *ns)
{
	cairn_cleanup(X509_freep) X509 *x = certificates_x509_first(crt);

	return x && has_own_issuer(x, service, ns);
}

static bool has_host(X509 *x, const char *service, const char *ns, const char *suffix)
{
	char host[HOST_MAX];
	int n = snprintf(host, sizeof(host), "%s.%s%s", service, ns, suffix);

	return n > 0 && (size_t)n < sizeof(host) &&
	       X509_check_host(x, host, (size_t)n, 0, NULL) == 1;
}

static bool read_time(const ASN1_TIME *time, uint64_t *ret)
{
	struct tm tm = {0};
	time_t at;

	if (ASN1_TIME_to_tm(time, &tm) != 1)
		return false;
	at = timegm(&tm);
	*ret = at > 0 ? (uint64_t)at : 0;
	return true;
}

bool certificates_x509_validity(X509 *x, struct certificates_validity *ret)
{
	uint64_t begins_s, ends_s, before_s;

	if (!read_time(X509_get0_notBefore(x), &begins_s) ||
	    !read_time(X509_get0_notAfter(x), &ends_s) || ends_s <= begins_s)
		return false;
	before_s = (ends_s - begins_s) / 10; /* a ninth of the life that follows */
	if (before_s > CERTIFICATES_SLOW_CLOCK_S)
		before_s = CERTIFICATES_SLOW_CLOCK_S;
	*ret = (struct certificates_validity){.made_s = begins_s + before_s, .ends_s = ends_s};
	return true;
}

uint64_t certificates_end(const char *crt)
{
	cairn_cleanup(X509_freep) X509 *x = certificates_x509_first(crt);
	struct certificates_validity validity;

	return x && certificates_x509_validity(x, &validity) ? validity.ends_s : 0;
}

int certificates_check(const struct certificates_pair *pair, const char *bundle,
		       const char *service, const char *ns, uint64_t now_s,
		       struct certificates_validity *ret, struct cairn_err *err)
{
	cairn_cleanup(X509_freep) X509 *x = certificates_x509_first(pair->crt);
	struct certificates_validity validity;
	const char *why = NULL;

	if (!x)
		why = "tls.crt is not a certificate";
	else if (!key_fits(x, pair->key))
		why = "the key belongs to another certificate";
	else if (!has_host(x, service, ns, ".svc"))
		why = "it was issued for another name";
	else if (!certificates_x509_validity(x, &validity))
		why = "its times cannot be read";
	else
		why = distrust(x, bundle, now_s > validity.made_s ? now_s : validity.made_s);
	if (why)
		return cairn_err_set(err, CAIRN_INVALID, "the certificate of %s: %s", service, why);
	*ret = validity;
	return 0;
}

static bool has_expired(X509 *x, uint64_t now_s)
{
	uint64_t ends_s = 0;

	return !read_time(X509_get0_notAfter(x), &ends_s) || ends_s <= now_s;
}

/* True if the i-th is also at a later place. */
static bool comes_again(STACK_OF(X509) * all, int i)
{
	for (int k = i + 1; k < sk_X509_num(all); k++)
		if (X509_cmp(sk_X509_value(all, i), sk_X509_value(all, k)) == 0)
			return true;
	return false;
}

static int add_certificate(struct cairn_buf *out, X509 *x)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *data = NULL;
	long n = bio && PEM_write_bio_X509(bio, x) == 1 ? BIO_get_mem_data(bio, &data) : 0;

	if (n > 0)
		cairn_buf_add(out, data, (size_t)n);
	BIO_free(bio);
	return n > 0 && !cairn_buf_failed(out) ? 0 : CAIRN_NO_SPACE;
}

int certificates_bundle(const char *bundle, const char *added, uint64_t now_s, char **ret,
			struct cairn_err *err)
{
	cairn_auto_free char *joined =
		cairn_printf("%s%s", bundle ? bundle : "", added ? added : "");
	STACK_OF(X509) *all = certificates_of(joined);
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(BUNDLE_BYTES_MAX);
	unsigned n = 0;
	int rc = joined && all ? 0 : CAIRN_NO_SPACE;

	for (int i = 0; i < sk_X509_num(all); i++)
		n += !has_expired(sk_X509_value(all, i), now_s) && !comes_again(all, i);
	for (int i = 0; !rc && i < sk_X509_num(all); i++) {
		X509 *one = sk_X509_value(all, i);

		if (has_expired(one, now_s) || comes_again(all, i))
			continue;
		if (n-- <= CERTIFICATES_BUNDLE_MAX)
			rc = add_certificate(&out, one);
	}
	free_all(all);
	if (!rc)
		*ret = cairn_buf_take_string(&out);
	return rc || !*ret ? cairn_err_nomem(err, "authorities") : 0;
}
