/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/string_index.h"

int kube_slots_init(struct kube_slots *slots)
{
	slots->map = json_object();
	return slots->map ? 0 : -1;
}

void kube_slots_done(struct kube_slots *slots)
{
	json_decref(slots->map);
	slots->map = NULL;
}

size_t kube_slots_find(const struct kube_slots *slots, const char *text)
{
	const json_t *found = json_object_get(slots->map, text);

	return found ? (size_t)json_integer_value(found) : KUBE_SLOT_NONE;
}

int kube_slots_put(struct kube_slots *slots, const char *text, size_t slot)
{
	return json_object_set_new_nocheck(slots->map, text, json_integer((json_int_t)slot));
}

void kube_slots_remove(struct kube_slots *slots, const char *text)
{
	json_object_del(slots->map, text);
}
