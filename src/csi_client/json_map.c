/* SPDX-License-Identifier: Apache-2.0 */

#include "csi_client/json_map.h"

int csi_client_json_map(const json_t *object, const ProtobufCMessageDescriptor *type,
			struct proto_text_map *ret, struct cairn_err *err)
{
	const char *key;
	json_t *value;
	int rc = proto_text_map_init(ret, type, json_object_size(object), err);

	if (rc)
		return rc;
	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		if (json_is_string(value))
			proto_text_map_add(ret, key, json_string_value(value));
	}
	return 0;
}
