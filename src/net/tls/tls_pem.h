/* SPDX-License-Identifier: Apache-2.0 */

/* OpenSSL's objects as PEM text.
 *
 * In all of these NULL means out of memory, or an error of OpenSSL, whose queue
 * the caller clears. The caller frees the text.
 */
#ifndef CAIRN_NET_TLS_PEM_H
#define CAIRN_NET_TLS_PEM_H

#include <openssl/x509.h>

char *net_tls_pem_certificate(const X509 *certificate);
char *net_tls_pem_request(const X509_REQ *request);

/* Not encrypted: the caller overwrites the text before freeing it. */
char *net_tls_pem_key(const EVP_PKEY *key);

#endif
