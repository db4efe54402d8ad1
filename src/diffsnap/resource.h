/* SPDX-License-Identifier: Apache-2.0 */

/* What a reader may ask about, in the driver's own names.
 *
 * A resource is made of a DifferentialSnapshot that was found good, never changes
 * and is counted: whoever reads goes on with the one it has. The table finds it
 * by namespace and name. It is only memory: after a restart it is filled again
 * from the objects.
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

/* Texts may be NULL but for the target; they are copied. */
struct diffsnap_resource_spec {
	const char *base; /* handles */
	const char *target;
	const char *base_name; /* of the VolumeSnapshots, in the object's namespace */
	const char *target_name;
	const char *volume_id;
	const char *mode;
	const char *start_offset;
	const json_t *parameters; /* object of texts, or NULL */
};

int diffsnap_resource_new(const struct diffsnap_resource_spec *spec, struct diffsnap_resource **ret,
			  struct cairn_err *err);
struct diffsnap_resource *diffsnap_resource_ref(struct diffsnap_resource *resource);
void diffsnap_resource_unref(struct diffsnap_resource *resource);
CAIRN_DEFINE_CLEANUP(struct diffsnap_resource, diffsnap_resource_unref);

/* Its texts, "" where there is none; borrowed. */
const struct diffsnap_resource_spec *
diffsnap_resource_spec(const struct diffsnap_resource *resource);

int diffsnap_table_new(struct diffsnap_table **ret, struct cairn_err *err);
void diffsnap_table_free(struct diffsnap_table *table); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct diffsnap_table, diffsnap_table_free);

/* Puts it under the key ("namespace/name"), with a reference of its own, in place
 * of what was there. CAIRN_NO_SPACE when memory is short. */
int diffsnap_table_put(struct diffsnap_table *table, const char *key,
		       struct diffsnap_resource *resource, struct cairn_err *err);
void diffsnap_table_remove(struct diffsnap_table *table, const char *key);

/* The caller's reference, or NULL. */
struct diffsnap_resource *diffsnap_table_get(struct diffsnap_table *table, const char *key);
size_t diffsnap_table_count(struct diffsnap_table *table);

#endif
