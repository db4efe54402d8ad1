/* SPDX-License-Identifier: Apache-2.0 */

/* A counted value: what a cache keeps and several calls may hold at once. It is
 * the first member of the struct it belongs to and does not change once others
 * can see it. */
#ifndef CAIRN_SIDECAR_VALUE_H
#define CAIRN_SIDECAR_VALUE_H

#include <stdatomic.h>
#include <stddef.h>

struct sidecar_value {
	_Atomic unsigned refs;
	void (*destroy)(struct sidecar_value *value);
};

static inline void sidecar_value_init(struct sidecar_value *value,
				      void (*destroy)(struct sidecar_value *value))
{
	atomic_init(&value->refs, 1);
	value->destroy = destroy;
}

/* Accepts NULL. */
static inline struct sidecar_value *sidecar_value_ref(struct sidecar_value *value)
{
	if (value)
		atomic_fetch_add(&value->refs, 1);
	return value;
}

static inline void sidecar_value_unref(struct sidecar_value *value)
{
	if (value && atomic_fetch_sub(&value->refs, 1) == 1)
		value->destroy(value);
}

/* Cleanup of a pointer to any struct that begins with a value. */
static inline void sidecar_value_unrefp(void *p)
{
	sidecar_value_unref(*(struct sidecar_value **)p);
}

#define sidecar_auto_value __attribute__((cleanup(sidecar_value_unrefp)))

#endif
