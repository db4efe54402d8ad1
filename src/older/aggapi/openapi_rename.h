/* SPDX-License-Identifier: Apache-2.0 */

/* The OpenAPI document of a version of the group, renamed to the version of this server. */
#ifndef CAIRN_AGGAPI_OPENAPI_RENAME_H
#define CAIRN_AGGAPI_OPENAPI_RENAME_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

/* Adds the paths of resources for which `wanted` is true, and all schemas, to
 * `into` ({"paths": {}, "components": {"schemas": {}}}). */
int aggapi_openapi_rename(const json_t *document, const char *version,
			  bool (*wanted)(const char *plural, const char *version), json_t *into,
			  struct cairn_err *err);

#endif
