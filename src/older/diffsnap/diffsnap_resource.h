/* SPDX-License-Identifier: Apache-2.0 */

/* What clients may read, with the driver's handles.
 *
 * A resource is made from a DifferentialSnapshot that was accepted. It is immutable and
 * reference-counted, so a running request keeps the one it started with. The table finds
 * it by namespace and name. It is kept in memory only and rebuilt from the objects after a
 * restart.
 *
 * Thread-safe.
 */
#ifndef CAIRN_DIFFSNAP_RESOURCE_H
#define CAIRN_DIFFSNAP_RESOURCE_H

#include <jansson.h>
#include <stddef.h>

#include "base/cleanup.h"

struct cairn_err;
struct diffsnap_resource;
struct diffsnap_table;

/* Strings may be NULL except the target; they are copied. */
struct diffsnap_resource_spec {
	const char *base; /* handles */
	const char *target;
	const char *base_name; /* of the VolumeSnapshots, in the object's namespace */
	const char *target_name;
	const char *volume_id;
	const char *mode;
	const char *start_offset;
	const json_t *parameters; /* object of strings, or NULL */
};

int diffsnap_resource_new(const struct diffsnap_resource_spec *spec, struct diffsnap_resource **ret,
			  struct cairn_err *err);
struct diffsnap_resource *diffsnap_resource_ref(struct diffsnap_resource *resource);
void diffsnap_resource_unref(struct diffsnap_resource *resource);
CAIRN_DEFINE_CLEANUP(struct diffsnap_resource, diffsnap_resource_unref);

/* Its strings, "" for those not set; borrowed. */
const struct diffsnap_resource_spec *
diffsnap_resource_spec(const struct diffsnap_resource *resource);

int diffsnap_table_new(struct diffsnap_table **ret, struct cairn_err *err);
void diffsnap_table_free(struct diffsnap_table *table); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct diffsnap_table, diffsnap_table_free);

/* Stores it under the key ("namespace/name"), with its own reference, and replaces any
 * previous one. CAIRN_NO_SPACE when memory is short. */
int diffsnap_table_put(struct diffsnap_table *table, const char *key,
		       struct diffsnap_resource *resource, struct cairn_err *err);
void diffsnap_table_remove(struct diffsnap_table *table, const char *key);

/* Returns the caller's reference, or NULL. */
struct diffsnap_resource *diffsnap_table_get(struct diffsnap_table *table, const char *key);
size_t diffsnap_table_count(struct diffsnap_table *table);

#endif
