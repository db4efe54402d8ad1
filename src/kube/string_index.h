/* SPDX-License-Identifier: Apache-2.0 */

/* Map from strings to array indexes. Not thread-safe. */
#ifndef CAIRN_KUBE_SLOTS_H
#define CAIRN_KUBE_SLOTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The map is a JSON object, because its hash function resists chosen collisions. */
struct kube_string_index {
	json_t *map;
};

int kube_string_index_init(struct kube_string_index *slots); /* -1 when memory is short */
void kube_string_index_done(struct kube_string_index *slots);

#define KUBE_SLOT_NONE SIZE_MAX

size_t kube_string_index_find(const struct kube_string_index *slots, const char *text);
int kube_string_index_put(struct kube_string_index *slots, const char *text, size_t slot);
void kube_string_index_remove(struct kube_string_index *slots, const char *text);

#endif
