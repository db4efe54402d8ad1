/* SPDX-License-Identifier: Apache-2.0 */

/* Algorithms of OpenSSL, looked up once: a lookup for each blob would cost as
 * much as hashing a small one. NULL when memory is short. */
#ifndef CAIRN_REPO_DIGEST_H
#define CAIRN_REPO_DIGEST_H

#include <openssl/evp.h>

const EVP_MD *repo_sha256(void);
EVP_MAC *repo_poly1305(void);

#endif
