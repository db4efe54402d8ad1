/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_pair.h"

#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/mem.h"
#include "certificates/certificate_x509.h"
#include "net/tls/tls_pem.h"

#define SERIAL_BITS 127
#define NAMES_MAX   512
#define DAY_S       86400U

static int issue_failed(struct cairn_err *err, const char *what)
{
	ERR_clear_error();
	return cairn_err_set(err, CAIRN_INTERNAL, "%s cannot be created", what);
}

static bool set_serial(X509 *x)
{
	BIGNUM *number = BN_new();
	bool good = number &&
		    BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
		    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL;

	BN_free(number);
	return good;
}

static bool set_times(X509 *x, uint64_t now_s, uint64_t life_s)
{
	uint64_t before_s = life_s / 9;
	time_t begin = (time_t)now_s;

	if (before_s > CERTIFICATES_SLOW_CLOCK_S)
		before_s = CERTIFICATES_SLOW_CLOCK_S;
	return X509_time_adj_ex(X509_getm_notBefore(x), 0, -(long)before_s, &begin) &&
	       X509_time_adj_ex(X509_getm_notAfter(x), (int)(life_s / DAY_S),
				(long)(life_s % DAY_S), &begin);
}

static bool set_common_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text,
					  -1, -1, 0) == 1;
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;
	bool good;

	X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	good = extension && X509_add_ext(x, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return good;
}

/* Everything but names and extensions. */
static X509 *new_certificate(EVP_PKEY *key, uint64_t now_s, uint64_t life_s)
{
	cairn_cleanup(X509_freep) X509 *x = X509_new();

	if (!x || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x) ||
	    !set_times(x, now_s, life_s) || X509_set_pubkey(x, key) != 1)
		return NULL;
	return cairn_take(x);
}

/* The name is unique: clients look for an authority by name first. */
X509 *certificates_x509_authority(EVP_PKEY *key, uint64_t now_s, uint64_t life_s)
{
	cairn_cleanup(X509_freep) X509 *x = new_certificate(key, now_s, life_s);
	BIGNUM *serial = x ? ASN1_INTEGER_to_BN(X509_get0_serialNumber(x), NULL) : NULL;
	char *digits = serial ? BN_bn2hex(serial) : NULL;
	char name[64];
	bool good = digits != NULL;

	snprintf(name, sizeof(name), CERTIFICATES_AUTHORITY "%s", good ? digits : "");
	OPENSSL_free(digits);
	BN_free(serial);
	good = good && set_common_name(X509_get_subject_name(x), name) &&
	       X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
	       add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE") &&
	       add_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
	       add_extension(x, x, NID_subject_key_identifier, "hash") &&
	       X509_sign(x, key, EVP_sha256()) > 0;
	return good ? cairn_take(x) : NULL;
}

X509 *certificates_x509_leaf(EVP_PKEY *key, const struct certificates_leaf *leaf, X509 *authority,
			     EVP_PKEY *signer)
{
	cairn_cleanup(X509_freep) X509 *x = new_certificate(key, leaf->now_s, leaf->life_s);

	if (!x || !set_common_name(X509_get_subject_name(x), leaf->common_name) ||
	    X509_set_issuer_name(x, X509_get_subject_name(authority)) != 1 ||
	    !add_extension(x, authority, NID_basic_constraints, "critical,CA:FALSE") ||
	    !add_extension(x, authority, NID_key_usage, "critical,digitalSignature") ||
	    !add_extension(x, authority, NID_ext_key_usage, leaf->usage) ||
	    !add_extension(x, authority, NID_authority_key_identifier, "keyid") ||
	    !add_extension(x, authority, NID_subject_alt_name, leaf->names) ||
	    X509_sign(x, signer, EVP_sha256()) <= 0)
		return NULL;
	return cairn_take(x);
}

int certificates_issue(const char *service, const char *ns, uint64_t now_s, uint64_t life_s,
		       struct certificates_pair *ret, char **ret_ca, struct cairn_err *err)
{
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *signer = EVP_EC_gen("P-256");
	cairn_cleanup(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	cairn_cleanup(X509_freep) X509 *authority = NULL;
	cairn_cleanup(X509_freep) X509 *server = NULL;
	struct certificates_pair made = {0};
	char names[NAMES_MAX];
	const struct certificates_leaf leaf = {
		.common_name = service,
		.usage = "serverAuth",
		.names = names,
		.now_s = now_s,
		.life_s = life_s,
	};
	char *ca;

	snprintf(names, sizeof(names), "DNS:%s.%s.svc,DNS:%s.%s.svc.cluster.local,DNS:%s.%s",
		 service, ns, service, ns, service, ns);
	if (signer && key)
		authority = certificates_x509_authority(signer, now_s, life_s);
	if (authority)
		server = certificates_x509_leaf(key, &leaf, authority, signer);
	if (!server)
		return issue_failed(err, "certificate");
	made.crt = net_tls_pem_certificate(server);
	made.key = net_tls_pem_key(key);
	ca = net_tls_pem_certificate(authority);
	if (!made.crt || !made.key || !ca) {
		certificates_pair_done(&made);
		free(ca);
		return cairn_err_nomem(err, "certificate");
	}
	*ret = made;
	*ret_ca = ca;
	return 0;
}
