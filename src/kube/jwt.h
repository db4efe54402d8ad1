/* SPDX-License-Identifier: Apache-2.0 */

/* What a service account token says of itself. Nothing here proves anything: it
 * is for tokens that the API server called good. */
#ifndef CAIRN_KUBE_JWT_H
#define CAIRN_KUBE_JWT_H

#include <stdbool.h>
#include <stdint.h>

/* The "exp" claim, seconds since 1970; false when the text is no JSON web token
 * or has none. */
bool kube_jwt_expiry(const char *token, uint64_t *ret_seconds);

#endif
