/* SPDX-License-Identifier: Apache-2.0 */

/* Reads claims of a service account token. Nothing is verified: use it only for tokens
 * that the API server accepted. */
#ifndef CAIRN_KUBE_JWT_H
#define CAIRN_KUBE_JWT_H

#include <stdbool.h>
#include <stdint.h>

/* The "exp" claim, in seconds since 1970. Returns false if the text is not a JSON web
 * token or has no such claim. */
bool kube_jwt_expiry(const char *token, uint64_t *ret_seconds);

#endif
