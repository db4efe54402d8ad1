/* SPDX-License-Identifier: Apache-2.0 */

/* A reference-counted value that a cache stores and several calls may hold at once. It is
 * the first member of its struct and is immutable once it is shared. */
#ifndef CAIRN_KUBE_VALUE_H
#define CAIRN_KUBE_VALUE_H

#include <stdatomic.h>
#include <stddef.h>

struct kube_value {
	_Atomic unsigned refs;
	void (*destroy)(struct kube_value *value);
};

static inline void kube_value_init(struct kube_value *value,
				   void (*destroy)(struct kube_value *value))
{
	atomic_init(&value->refs, 1);
	value->destroy = destroy;
}

/* Accepts NULL. */
static inline struct kube_value *kube_value_ref(struct kube_value *value)
{
	if (value)
		atomic_fetch_add(&value->refs, 1);
	return value;
}

static inline void kube_value_unref(struct kube_value *value)
{
	if (value && atomic_fetch_sub(&value->refs, 1) == 1)
		value->destroy(value);
}

/* Cleanup function for a pointer to any struct that begins with a value. */
static inline void kube_value_unrefp(void *p)
{
	kube_value_unref(*(struct kube_value **)p);
}

#define kube_auto_value __attribute__((cleanup(kube_value_unrefp)))

#endif
