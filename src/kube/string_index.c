/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/string_index.h"

int kube_string_index_init(struct kube_string_index *slots)
{
	slots->map = json_object();
	return slots->map ? 0 : -1;
}

void kube_string_index_done(struct kube_string_index *slots)
{
	json_decref(slots->map);
	slots->map = NULL;
}

size_t kube_string_index_find(const struct kube_string_index *slots, const char *text)
{
	const json_t *found = json_object_get(slots->map, text);

	return found ? (size_t)json_integer_value(found) : KUBE_SLOT_NONE;
}

int kube_string_index_put(struct kube_string_index *slots, const char *text, size_t slot)
{
	return json_object_set_new_nocheck(slots->map, text, json_integer((json_int_t)slot));
}

void kube_string_index_remove(struct kube_string_index *slots, const char *text)
{
	json_object_del(slots->map, text);
}
