/* SPDX-License-Identifier: Apache-2.0 */

/* The authority of the certificates with which the sidecars of nodes know each other.
 *
 * Other than the authorities of services (certificate_pair.h), it signs more than one
 * certificate, so its key is kept, in a Secret that only this process may read.
 */
#ifndef CAIRN_CERTIFICATES_ROUTE_AUTHORITY_H
#define CAIRN_CERTIFICATES_ROUTE_AUTHORITY_H

#include <stdint.h>

struct cairn_err;
struct certificates_pair;
struct certificates_validity;

/* Last part of the name in a node's certificate; sidecar/route.h has the same. */
#define CERTIFICATES_ROUTE_SUFFIX ".cairn-route"

/* Creates an authority, valid for `life_s` seconds from `now_s` and a time before. */
int certificates_authority_issue(uint64_t now_s, uint64_t life_s, struct certificates_pair *ret,
				 struct cairn_err *err);

/* Checks that the authority can sign at `now_s`.
 *
 * CAIRN_INVALID  it cannot: not a pair, or expired
 */
int certificates_authority_check(const struct certificates_pair *authority, uint64_t now_s,
				 struct certificates_validity *ret, struct cairn_err *err);

/* certificates_bundle() with `added` in it even if what is in `bundle` is damaged and is then
 * given up: the certificates of an authority that is not trusted are useless. */
int certificates_authority_join(const char *bundle, const char *added, uint64_t now_s, char **ret,
				struct cairn_err *err);

/* Signs a certificate for the key of `request` (PEM), for servers and clients. Its only name
 * is `node`.cairn-route: the names in the request are ignored. The caller frees `*ret`.
 *
 * CAIRN_INVALID  not a request, or it does not prove that its sender has the key
 */
int certificates_authority_sign(const struct certificates_pair *authority, const char *request,
				const char *node, uint64_t now_s, uint64_t life_s, char **ret,
				struct cairn_err *err);

#endif
