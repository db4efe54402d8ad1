/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/route_authority.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "certificates/certificate_pair.h"
#include "certificates/certificate_x509.h"
#include "net/tls/tls_pem.h"

#define ROUTE_NAME_MAX  320 /* "DNS:", the name of a node and the suffix */
#define COMMON_NAME_MAX 64  /* X.520 */

CAIRN_DEFINE_CLEANUP(X509_REQ, X509_REQ_free);

static EVP_PKEY *authority_key(const char *pem)
{
	BIO *bio = pem ? BIO_new_mem_buf(pem, -1) : NULL;
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

	BIO_free(bio);
	ERR_clear_error();
	return key;
}

/* NULL if the sender of the request does not have its key. */
static X509_REQ *proven_request(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	cairn_cleanup(X509_REQ_freep) X509_REQ *request =
		bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
	EVP_PKEY *key = request ? X509_REQ_get0_pubkey(request) : NULL;
	bool good = key && X509_REQ_verify(request, key) == 1;

	BIO_free(bio);
	ERR_clear_error();
	return good ? cairn_take(request) : NULL;
}

int certificates_authority_issue(uint64_t now_s, uint64_t life_s, struct certificates_pair *ret,
				 struct cairn_err *err)
{
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	cairn_cleanup(X509_freep) X509 *x =
		key ? certificates_x509_authority(key, now_s, life_s) : NULL;
	struct certificates_pair made = {0};

	if (x) {
		made.crt = net_tls_pem_certificate(x);
		made.key = net_tls_pem_key(key);
	}
	if (!made.crt || !made.key) {
		certificates_pair_done(&made);
		ERR_clear_error();
		return cairn_err_set(err, CAIRN_INTERNAL, "authority cannot be created");
	}
	*ret = made;
	return 0;
}

int certificates_authority_check(const struct certificates_pair *authority, uint64_t now_s,
				 struct certificates_validity *ret, struct cairn_err *err)
{
	cairn_cleanup(X509_freep) X509 *x = certificates_x509_first(authority->crt);
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *key = authority_key(authority->key);
	bool good = x && key && X509_check_private_key(x, key) == 1 && X509_check_ca(x) == 1 &&
		    certificates_x509_validity(x, ret) && ret->ends_s > now_s;

	ERR_clear_error();
	return good ? 0 : cairn_err_set(err, CAIRN_INVALID, "the authority cannot sign");
}

int certificates_authority_join(const char *bundle, const char *added, uint64_t now_s, char **ret,
				struct cairn_err *err)
{
	cairn_auto_free char *joined = NULL;
	int rc = certificates_bundle(bundle, added, now_s, &joined, err);

	if (rc)
		return rc;
	if (!strstr(joined, added))
		return certificates_bundle(NULL, added, now_s, ret, err);
	*ret = cairn_take(joined);
	return 0;
}

int certificates_authority_sign(const struct certificates_pair *authority, const char *request,
				const char *node, uint64_t now_s, uint64_t life_s, char **ret,
				struct cairn_err *err)
{
	cairn_cleanup(X509_REQ_freep) X509_REQ *asked = proven_request(request);
	cairn_cleanup(X509_freep) X509 *x = certificates_x509_first(authority->crt);
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *signer = authority_key(authority->key);
	cairn_cleanup(X509_freep) X509 *made = NULL;
	char names[ROUTE_NAME_MAX], common[COMMON_NAME_MAX + 1];
	const struct certificates_leaf leaf = {
		.common_name = common,
		.usage = "serverAuth,clientAuth",
		.names = names,
		.now_s = now_s,
		.life_s = life_s,
	};
	int n = snprintf(names, sizeof(names), "DNS:%s" CERTIFICATES_ROUTE_SUFFIX, node);

	if (!asked)
		return cairn_err_set(err, CAIRN_INVALID,
				     "not a certificate request, or not signed with its key");
	/* A comma would begin another name. */
	if (n < 0 || (size_t)n >= sizeof(names) || !*node || strpbrk(node, ",:*\n"))
		return cairn_err_set(err, CAIRN_INVALID, "'%.64s' is not the name of a node", node);
	snprintf(common, sizeof(common), "%s", node);
	if (x && signer)
		made = certificates_x509_leaf(X509_REQ_get0_pubkey(asked), &leaf, x, signer);
	*ret = made ? net_tls_pem_certificate(made) : NULL;
	ERR_clear_error();
	return *ret ? 0 : cairn_err_set(err, CAIRN_INTERNAL, "certificate cannot be created");
}
