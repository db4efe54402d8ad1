/* SPDX-License-Identifier: Apache-2.0 */

/* Map from strings to array indexes. Not thread-safe. */
#ifndef CAIRN_KUBE_SLOTS_H
#define CAIRN_KUBE_SLOTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* The map is a JSON object, because its hash function resists chosen collisions. */
struct kube_slots {
	json_t *map;
};

int kube_slots_init(struct kube_slots *slots); /* -1 when memory is short */
void kube_slots_done(struct kube_slots *slots);

#define KUBE_SLOT_NONE SIZE_MAX

size_t kube_slots_find(const struct kube_slots *slots, const char *text);
int kube_slots_put(struct kube_slots *slots, const char *text, size_t slot);
void kube_slots_remove(struct kube_slots *slots, const char *text);

#endif
