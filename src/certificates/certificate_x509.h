/* SPDX-License-Identifier: Apache-2.0 */

/* Parts of certificates that both kinds of authorities make with OpenSSL. */
#ifndef CAIRN_CERTIFICATES_X509_H
#define CAIRN_CERTIFICATES_X509_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/x509.h>

#include "base/cleanup.h"

struct certificates_validity;

CAIRN_DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free);
CAIRN_DEFINE_CLEANUP(X509, X509_free);

/* In all of these NULL and false mean out of memory, or an error of OpenSSL, whose queue the
 * caller clears. */

/* A self-signed authority with a unique name. */
X509 *certificates_x509_authority(EVP_PKEY *key, uint64_t now_s, uint64_t life_s);

/* A certificate of `key`, signed by the authority; `usage` and `names` as OpenSSL's
 * configuration spells extendedKeyUsage and subjectAltName. */
struct certificates_leaf {
	const char *common_name, *usage, *names;
	uint64_t now_s, life_s;
};
X509 *certificates_x509_leaf(EVP_PKEY *key, const struct certificates_leaf *leaf, X509 *authority,
			     EVP_PKEY *signer);

/* The first certificate of a text; NULL if it begins with none. */
X509 *certificates_x509_first(const char *pem);
bool certificates_x509_validity(X509 *x, struct certificates_validity *ret);

#endif
