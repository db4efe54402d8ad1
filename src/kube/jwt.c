/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/jwt.h"

#include <string.h>

#include <jansson.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "kube/object.h"

#define PAYLOAD_MAX 65536U

bool kube_jwt_expiry(const char *token, uint64_t *ret_seconds)
{
	const char *begin = strchr(token, '.');
	const char *end = begin ? strchr(begin + 1, '.') : NULL;
	cairn_auto_free char *payload = NULL;
	kube_auto_json json_t *claims = NULL;
	int64_t seconds;
	size_t n;

	if (!end || end - begin - 1 > PAYLOAD_MAX)
		return false;
	n = (size_t)(end - begin - 1);
	payload = cairn_strndup(begin + 1, n);
	if (!payload)
		return false;
	for (size_t i = 0; i < n; i++) /* base64url */
		payload[i] = payload[i] == '-' ? '+' : payload[i] == '_' ? '/' : payload[i];
	if (!cairn_base64_decode(payload, n, (uint8_t *)payload, &n))
		return false;
	if (kube_json_parse(payload, n, &claims, NULL) != 0)
		return false;
	if (!kube_i64(claims, &seconds, "exp") || seconds < 0)
		return false;
	*ret_seconds = (uint64_t)seconds;
	return true;
}
