/* SPDX-License-Identifier: Apache-2.0 */

/* Controller.CreateVolume: idempotent by name over all pools. */

#include "csi/csi_controller.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "csi/capability.h"
#include "csi/parameters.h"
#include "csi/reply.h"
#include "csi/size.h"
#include "csi_controller.pb-c.h"

struct wish {
	const Csi__V1__CreateVolumeRequest *request;
	struct csi_size_range range;
	struct csi_attributes attributes;
	struct pool_volume_settings settings;
	const char *pool_name; /* NULL: the default, or the source's */
	struct pool *source_pool;
	uint64_t source_size;
	bool source_gone; /* matters only if the volume does not exist yet */
};

static int create_volume_read_parameters(struct wish *w, struct cairn_err *err)
{
	struct csi_entry entries[CSI_ENTRIES_MAX];
	const Csi__V1__CreateVolumeRequest *r = w->request;
	int rc = csi_entries(r->parameters, r->n_parameters, entries, err);

	if (!rc)
		rc = csi_parameters_parse(entries, r->n_parameters, &w->pool_name, err);
	if (rc)
		return rc;
	w->attributes.parameters = csi_entries_checksum(entries, r->n_parameters);
	rc = csi_entries(r->mutable_parameters, r->n_mutable_parameters, entries, err);
	return rc ? rc : csi_mutable_parse(entries, r->n_mutable_parameters, &w->settings, err);
}

static int create_volume_find_source(struct csi_driver *driver, struct wish *w,
				     struct cairn_err *err)
{
	const Csi__V1__VolumeContentSource *source = w->request->volume_content_source;
	struct pool_snapshot snapshot;
	struct pool_volume volume;
	const char *id;
	int rc;

	if (!source)
		return 0;
	if (source->type_case == CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT) {
		id = source->snapshot->snapshot_id;
		rc = csi_find_snapshot(driver, id, &w->source_pool, &snapshot, err);
		w->source_size = rc ? 0 : snapshot.size;
	} else if (source->type_case == CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME) {
		id = source->volume->volume_id;
		rc = csi_find_volume(driver, id, &w->source_pool, &volume, err);
		w->source_size = rc ? 0 : volume.size;
	} else {
		return cairn_err_set(err, CAIRN_INVALID,
				     "the content source names neither snapshot nor volume");
	}
	w->source_gone = rc == CAIRN_NOT_FOUND && strlen(id) <= POOL_ID_MAX;
	if (rc && !w->source_gone)
		return rc;
	snprintf(w->attributes.source, sizeof(w->attributes.source), "%s", id);
	return 0;
}

/* One of the requisite topologies must be this node. */
static int check_topology(const struct csi_driver *driver, const Csi__V1__TopologyRequirement *want,
			  struct cairn_err *err)
{
	if (!driver->topology_key || !want || want->n_requisite == 0)
		return 0;
	for (size_t i = 0; i < want->n_requisite; i++)
		if (csi_topology_is_here(driver, want->requisite[i]))
			return 0;
	return cairn_err_set(err, CAIRN_NO_SPACE,
			     "no requisite topology can reach a volume of node '%s'",
			     driver->node_id);
}

static int choose_pool(struct csi_driver *driver, const struct wish *w, struct pool **ret,
		       struct cairn_err *err)
{
	struct pool *chosen = w->source_pool ? w->source_pool : driver->pools[0].pool;

	for (size_t i = 0; w->pool_name && i <= driver->n_pools; i++) {
		if (i == driver->n_pools)
			return cairn_err_set(err, CAIRN_INVALID, "there is no pool '%s'",
					     w->pool_name);
		if (strcmp(driver->pools[i].name, w->pool_name) == 0) {
			chosen = driver->pools[i].pool;
			break;
		}
	}
	if (w->source_pool && chosen != w->source_pool)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the content source is in another pool than '%s'",
				     w->pool_name);
	*ret = chosen;
	return 0;
}

/* Finds the volume of that name in any pool; CAIRN_NOT_FOUND if there is none. The pool
 * also accepts ids as names, which CSI does not. */
static int create_volume_find_named(struct csi_driver *driver, const char *name,
				    struct pool **ret_pool, struct csi_volume_bundle *bundle,
				    struct cairn_err *err)
{
	int rc = CAIRN_NOT_FOUND;

	for (size_t i = 0; i < driver->n_pools && rc == CAIRN_NOT_FOUND; i++) {
		*ret_pool = driver->pools[i].pool;
		rc = pool_volume_get(*ret_pool, name, &bundle->volume, err);
		if (!rc && strcmp(bundle->volume.name, name) != 0)
			rc = CAIRN_NOT_FOUND;
	}
	return rc ? rc : csi_attributes_get(*ret_pool, bundle->volume.id, &bundle->attributes, err);
}

static bool create_volume_fits(const struct wish *w, const struct csi_volume_bundle *bundle)
{
	return csi_size_fits(&w->range, bundle->volume.size) &&
	       strcmp(bundle->attributes.source, w->attributes.source) == 0 &&
	       bundle->attributes.parameters == w->attributes.parameters;
}

static int apply_settings(struct pool *pool, const struct wish *w, struct pool_volume *volume,
			  struct cairn_err *err)
{
	if (!w->settings.set_retention && !w->settings.set_granularity)
		return 0;
	return pool_volume_modify(pool, volume->id, &w->settings, volume, err);
}

/* Checks that the volume has the content source that this call requests. */
static int has_origin(struct pool *pool, const struct wish *w, const struct pool_volume *volume,
		      bool *ret, struct cairn_err *err)
{
	struct pool_snapshot origin;
	int rc;

	*ret = strcmp(w->attributes.source, volume->origin) == 0;
	if (*ret || !w->attributes.source[0] || !volume->origin[0])
		return 0;
	/* A clone's origin is a snapshot of the volume that was cloned; it may have
	 * expired. */
	rc = pool_snapshot_get(pool, volume->origin, &origin, err);
	*ret = rc == 0 && strcmp(origin.volume_id, w->attributes.source) == 0;
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION ? 0 : rc;
}

/* Completes the work of a call that was killed before it stored the attributes. */
static int finish_creation(struct pool *pool, const struct wish *w,
			   struct csi_volume_bundle *bundle, struct cairn_err *err)
{
	bool same = false;
	int rc = has_origin(pool, w, &bundle->volume, &same, err);

	if (rc)
		return rc;
	if (!csi_size_fits(&w->range, bundle->volume.size) || !same)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "volume '%s' exists with other size or source",
				     bundle->volume.name);
	rc = apply_settings(pool, w, &bundle->volume, err);
	if (rc)
		return rc;
	bundle->attributes = w->attributes;
	return csi_attributes_put(pool, bundle->volume.id, &w->attributes, err);
}

static int create_volume_create(struct csi_driver *driver, struct wish *w,
				struct csi_volume_bundle *bundle, struct cairn_err *err)
{
	struct pool_volume_spec spec = {
		.name = w->request->name,
		.from = w->attributes.source[0] ? w->attributes.source : NULL,
	};
	struct pool *pool;
	int rc = choose_pool(driver, w, &pool, err);

	if (w->source_gone)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no '%s' to copy", spec.from);
	if (!rc)
		rc = csi_size_choose(&w->range, w->source_size, &spec.size, err);
	if (!rc)
		rc = pool_volume_create(pool, &spec, &bundle->volume, err);
	if (!rc)
		rc = apply_settings(pool, w, &bundle->volume, err);
	if (rc)
		return rc;
	bundle->attributes = w->attributes;
	return csi_attributes_put(pool, bundle->volume.id, &bundle->attributes, err);
}

static int read_wish(struct csi_driver *driver, struct wish *w, struct cairn_err *err)
{
	const Csi__V1__CreateVolumeRequest *r = w->request;
	int rc = csi_require(r->name, "the volume's name", err);

	if (!rc)
		rc = csi_capabilities_check(r->volume_capabilities, r->n_volume_capabilities, err);
	if (!rc)
		rc = csi_size_range(r->capacity_range, &w->range, err);
	if (!rc)
		rc = create_volume_read_parameters(w, err);
	if (!rc)
		rc = check_topology(driver, r->accessibility_requirements, err);
	if (!rc)
		rc = create_volume_find_source(driver, w, err);
	return rc;
}

CSI_METHOD(csi_create_volume)
{
	struct wish w = {.request = request};
	Csi__V1__CreateVolumeResponse response;
	struct csi_volume_bundle bundle = {0};
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool *pool;
	int rc = read_wish(driver, &w, err);

	if (!rc)
		rc = csi_op_lock_take(&driver->turns, w.request->name, &turn, err);
	if (rc)
		return rc;
	rc = create_volume_find_named(driver, w.request->name, &pool, &bundle, err);
	if (rc == 0 && !bundle.attributes.noted)
		rc = finish_creation(pool, &w, &bundle, err);
	if (rc == 0 && !create_volume_fits(&w, &bundle))
		return cairn_err_set(err, CAIRN_EXISTS,
				     "volume '%s' exists with other size, source or parameters",
				     w.request->name);
	if (rc == CAIRN_NOT_FOUND)
		rc = create_volume_create(driver, &w, &bundle, err);
	if (rc)
		return rc;
	csi_volume_bundle_fill(driver, &bundle);
	csi__v1__create_volume_response__init(&response);
	response.volume = &bundle.message;
	return csi_reply(reply, &response.base, err);
}
