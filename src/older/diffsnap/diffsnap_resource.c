/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/diffsnap_resource.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"

#define BUCKETS 4096U

struct diffsnap_resource {
	_Atomic unsigned refs;
	struct diffsnap_resource_spec spec; /* points into `texts` */
	json_t *parameters;
	char texts[];
};

struct entry {
	struct entry *next;
	struct diffsnap_resource *resource;
	char key[];
};

struct diffsnap_table {
	pthread_mutex_t lock; /* guards the rest */
	size_t count;
	struct entry *buckets[BUCKETS];
};

static size_t room_for(const char *text)
{
	return (text ? strlen(text) : 0) + 1;
}

static const char *diffsnap_resource_copy_text(char **at, const char *text)
{
	char *copy = *at;
	size_t n = room_for(text);

	memcpy(copy, text ? text : "", n);
	*at += n;
	return copy;
}

int diffsnap_resource_new(const struct diffsnap_resource_spec *spec, struct diffsnap_resource **ret,
			  struct cairn_err *err)
{
	struct diffsnap_resource *made = cairn_alloc(
		sizeof(*made) + room_for(spec->base) + room_for(spec->target) +
		room_for(spec->base_name) + room_for(spec->target_name) +
		room_for(spec->volume_id) + room_for(spec->mode) + room_for(spec->start_offset));
	char *at;

	if (!made)
		return cairn_err_nomem(err, "resource");
	atomic_init(&made->refs, 1);
	made->parameters = spec->parameters ? json_deep_copy(spec->parameters) : json_object();
	if (!made->parameters) {
		free(made);
		return cairn_err_nomem(err, "resource");
	}
	at = made->texts;
	made->spec = (struct diffsnap_resource_spec){
		.base = diffsnap_resource_copy_text(&at, spec->base),
		.target = diffsnap_resource_copy_text(&at, spec->target),
		.base_name = diffsnap_resource_copy_text(&at, spec->base_name),
		.target_name = diffsnap_resource_copy_text(&at, spec->target_name),
		.volume_id = diffsnap_resource_copy_text(&at, spec->volume_id),
		.mode = diffsnap_resource_copy_text(&at, spec->mode),
		.start_offset = diffsnap_resource_copy_text(&at, spec->start_offset),
		.parameters = made->parameters,
	};
	*ret = made;
	return 0;
}

struct diffsnap_resource *diffsnap_resource_ref(struct diffsnap_resource *resource)
{
	atomic_fetch_add(&resource->refs, 1);
	return resource;
}

void diffsnap_resource_unref(struct diffsnap_resource *resource)
{
	if (atomic_fetch_sub(&resource->refs, 1) != 1)
		return;
	json_decref(resource->parameters);
	free(resource);
}

const struct diffsnap_resource_spec *
diffsnap_resource_spec(const struct diffsnap_resource *resource)
{
	return &resource->spec;
}

int diffsnap_table_new(struct diffsnap_table **ret, struct cairn_err *err)
{
	struct diffsnap_table *table = cairn_calloc(1, sizeof(*table));

	if (!table)
		return cairn_err_nomem(err, "table");
	pthread_mutex_init(&table->lock, NULL);
	*ret = table;
	return 0;
}

void diffsnap_table_free(struct diffsnap_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (table->buckets[i]) {
			struct entry *entry = table->buckets[i];

			table->buckets[i] = entry->next;
			diffsnap_resource_unref(entry->resource);
			free(entry);
		}
	pthread_mutex_destroy(&table->lock);
	free(table);
}

/* Returns the link to the key's entry, or to where it would be. FNV-1a suffices: only
 * users that may create objects choose the names, and a long list is only slow. */
static struct entry **diffsnap_resource_find(struct diffsnap_table *table, const char *key)
{
	uint32_t hash = 2166136261U;
	struct entry **link;

	for (const char *c = key; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 16777619U;
	link = &table->buckets[hash % BUCKETS];
	while (*link && strcmp((*link)->key, key) != 0)
		link = &(*link)->next;
	return link;
}

int diffsnap_table_put(struct diffsnap_table *table, const char *key,
		       struct diffsnap_resource *resource, struct cairn_err *err)
{
	cairn_scoped_lock(&table->lock);
	struct entry **link = diffsnap_resource_find(table, key);
	struct entry *entry = *link;

	if (entry) {
		diffsnap_resource_unref(entry->resource);
	} else {
		entry = cairn_alloc(sizeof(*entry) + strlen(key) + 1);
		if (!entry)
			return cairn_err_nomem(err, "table");
		memcpy(entry->key, key, strlen(key) + 1);
		entry->next = NULL;
		*link = entry;
		table->count++;
	}
	entry->resource = diffsnap_resource_ref(resource);
	return 0;
}

void diffsnap_table_remove(struct diffsnap_table *table, const char *key)
{
	cairn_scoped_lock(&table->lock);
	struct entry **link = diffsnap_resource_find(table, key);
	struct entry *entry = *link;

	if (!entry)
		return;
	*link = entry->next;
	table->count--;
	diffsnap_resource_unref(entry->resource);
	free(entry);
}

struct diffsnap_resource *diffsnap_table_get(struct diffsnap_table *table, const char *key)
{
	cairn_scoped_lock(&table->lock);
	struct entry *entry = *diffsnap_resource_find(table, key);

	return entry ? diffsnap_resource_ref(entry->resource) : NULL;
}

size_t diffsnap_table_count(struct diffsnap_table *table)
{
	cairn_scoped_lock(&table->lock);
	return table->count;
}
