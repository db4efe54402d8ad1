/* SPDX-License-Identifier: Apache-2.0 */

/* Parameters, attributes and secrets of Kubernetes objects as a map of a CSI request. */
#ifndef CAIRN_CSI_CLIENT_JSON_MAP_H
#define CAIRN_CSI_CLIENT_JSON_MAP_H

#include <jansson.h>

#include "proto/text_map.h"

struct cairn_err;

/* The members of `object` that are strings, borrowed from it; NULL is an empty object. `type`
 * as in proto_text_map_init(). */
int csi_client_json_map(const json_t *object, const ProtobufCMessageDescriptor *type,
			struct proto_text_map *ret, struct cairn_err *err);

#endif
