/* SPDX-License-Identifier: Apache-2.0 */

/* The table of methods: open addressing by path, never more than half full. */

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/grpc/grpc_server_impl.h"
#include "net/grpc/grpc_text.h"

#define FIRST_SLOTS 32

struct net_methods {
	struct net_method *slots;
	size_t n, cap; /* a power of two */
};

static size_t grpc_methods_hash(const char *path, size_t n)
{
	uint64_t h = 14695981039346656037ULL;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)path[i]) * 1099511628211ULL;
	return (size_t)(h ^ h >> 32);
}

struct net_methods *net_methods_new(void)
{
	struct net_methods *m = cairn_calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->cap = FIRST_SLOTS;
	m->slots = cairn_calloc(m->cap, sizeof(*m->slots));
	if (!m->slots) {
		free(m);
		return NULL;
	}
	return m;
}

void net_methods_free(struct net_methods *m)
{
	if (!m)
		return;
	free(m->slots);
	free(m);
}

static struct net_method *grpc_methods_slot_of(const struct net_methods *m, const char *path,
					       size_t n)
{
	for (size_t i = grpc_methods_hash(path, n);; i++) {
		struct net_method *slot = &m->slots[i & (m->cap - 1)];

		if (!slot->path || (strlen(slot->path) == n && memcmp(slot->path, path, n) == 0))
			return slot;
	}
}

static bool grpc_methods_grow(struct net_methods *m)
{
	struct net_methods bigger = {.n = m->n, .cap = m->cap * 2};

	bigger.slots = cairn_calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < m->cap; i++) {
		const char *path = m->slots[i].path;

		if (path)
			*grpc_methods_slot_of(&bigger, path, strlen(path)) = m->slots[i];
	}
	free(m->slots);
	*m = bigger;
	return true;
}

int net_methods_add(struct net_methods *m, const struct net_method *method, struct cairn_err *err)
{
	size_t n = strlen(method->path);
	struct net_method *slot;

	if (!grpc_path_valid(method->path, n) || (method->quick && method->kind != NET_UNARY))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a method", method->path);
	if (m->n * 2 >= m->cap && !grpc_methods_grow(m))
		return cairn_err_nomem(err, "method table");
	slot = grpc_methods_slot_of(m, method->path, n);
	if (slot->path)
		return cairn_err_set(err, CAIRN_EXISTS, "method %s has a handler already",
				     method->path);
	*slot = *method;
	m->n++;
	return 0;
}

const struct net_method *net_methods_find(const struct net_methods *m, const char *path, size_t n)
{
	const struct net_method *slot = grpc_methods_slot_of(m, path, n);

	return slot->path ? slot : NULL;
}

void net_methods_each(const struct net_methods *m, void (*visit)(void *arg, const char *path),
		      void *arg)
{
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].path)
			visit(arg, m->slots[i].path);
	}
}
