/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/scene.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/random.h"
#include "conformance/device.h"
#include "conformance/driver_target.h"

int conformance_scene_init(struct scene *scene, struct target *target, uint64_t size,
			   const char *parent, struct cairn_err *err)
{
	int rc;

	scene->target = target;
	scene->size = size;
	scene->main_state = 1;
	scene->grown_state = 1;
	scene->other_state = 1;
	scene->group_state = 1;
	rc = cairn_random_hex(scene->run, 4, err);
	if (rc)
		return rc;
	scene->dir = cairn_printf("%s/cairn-conformance-%s", parent, scene->run);
	if (!scene->dir)
		return cairn_err_nomem(err, "scene");
	if (mkdir(scene->dir, 0700) != 0)
		return cairn_err_sys(err, errno, "make '%s'", scene->dir);
	return 0;
}

/* Creates and publishes a volume of that name. It counts as created from the first call
 * on. */
static int scene_add_volume(struct scene *scene, const char *name, uint64_t size,
			    const struct snapshot *from, struct volume **ret, struct cairn_err *err)
{
	struct volume *v;
	int rc;

	if (scene->n_volumes == SCENE_VOLUMES_MAX)
		return cairn_err_set(err, CAIRN_INTERNAL, "more volumes than the scene has");
	v = &scene->volumes[scene->n_volumes++];
	v->fd = -1;
	v->wanted = size;
	v->name = cairn_printf("conformance-%s-%s", scene->run, name);
	v->from_snapshot = from ? cairn_strdup(from->id) : NULL;
	if (!v->name || (from && !v->from_snapshot))
		return cairn_err_nomem(err, "volume");
	rc = conformance_volume_create(scene->target, v, scene->dir, err);
	if (!rc)
		rc = conformance_volume_publish(scene->target, v, err);
	if (!rc)
		*ret = v;
	return rc;
}

static int scene_add_snapshot(struct scene *scene, const struct volume *v, const char *name,
			      struct snapshot **ret, struct cairn_err *err)
{
	struct snapshot *s;
	int rc;

	if (scene->n_snapshots == SCENE_SNAPSHOTS_MAX)
		return cairn_err_set(err, CAIRN_INTERNAL, "more snapshots than the scene has");
	s = &scene->snapshots[scene->n_snapshots++];
	s->name = cairn_printf("conformance-%s-%s", scene->run, name);
	s->volume_id = cairn_strdup(v->id);
	if (!s->name || !s->volume_id)
		return cairn_err_nomem(err, "snapshot");
	rc = conformance_device_sync(v->fd, err);
	if (!rc)
		rc = conformance_snapshot_create(scene->target, s, err);
	if (!rc)
		*ret = s;
	return rc;
}

/* --- the main volume --- */

#define SLOT        65536U
#define RANGES_MAX  65536U /* limit of entries; the dense writes stay far below */
#define DENSE_MAX   8192U
#define FIRST_DATA  1U /* versions */
#define SECOND_DATA 2U

/* The actions on slots of the first quarter, in both phases. */
static const struct plan {
	unsigned from, to; /* slots, both included */
	unsigned length;   /* SLOT: the whole slot, else a block whose place depends on the slot */
	enum scene_kind then;
} plan[] = {
	{0, 8, SCENE_BLOCK, SCENE_OVERWRITTEN}, {9, 12, SCENE_BLOCK, SCENE_ZEROED},
	{13, 16, SCENE_BLOCK, SCENE_DISCARDED}, {17, 20, SCENE_BLOCK, SCENE_ONE_BYTE},
	{21, 24, SCENE_BLOCK, SCENE_SAME},      {25, 40, SCENE_BLOCK, SCENE_WRITTEN},
	{41, 41, SLOT, SCENE_WRITTEN},          {42, 42, SLOT, SCENE_OVERWRITTEN},
	{43, 44, SLOT, SCENE_WRITTEN},          {48, 52, SCENE_BLOCK, SCENE_NEW},
};

static int scene_remember(struct scene *scene, struct scene_range range, struct cairn_err *err)
{
	if (!scene->ranges)
		scene->ranges = cairn_calloc(RANGES_MAX, sizeof(range));
	if (!scene->ranges || scene->n_ranges == RANGES_MAX)
		return cairn_err_nomem(err, "ranges");
	scene->ranges[scene->n_ranges++] = range;
	return 0;
}

static struct scene_range scene_place(const struct plan *p, unsigned slot)
{
	struct scene_range r = {.offset = (uint64_t)slot * SLOT, .length = p->length};

	if (p->length != SLOT)
		r.offset += slot % 8 * SCENE_BLOCK;
	return r;
}

static int write_first(struct scene *scene, const struct plan *p, unsigned slot,
		       struct cairn_err *err)
{
	struct scene_range r = scene_place(p, slot);
	int rc;

	if (p->then == SCENE_NEW)
		return 0;
	r.kind = SCENE_WRITTEN;
	r.gone = p->then == SCENE_ZEROED || p->then == SCENE_DISCARDED;
	rc = conformance_device_write(scene->volume->fd, r.offset, r.length, FIRST_DATA, err);
	return rc ? rc : scene_remember(scene, r, err);
}

static int write_second(struct scene *scene, const struct plan *p, unsigned slot,
			struct cairn_err *err)
{
	struct scene_range r = scene_place(p, slot);
	int fd = scene->volume->fd;
	int rc;

	r.kind = p->then;
	switch (p->then) {
	case SCENE_WRITTEN:
		return 0;
	case SCENE_SAME:
		rc = conformance_device_write(fd, r.offset, r.length, FIRST_DATA, err);
		break;
	case SCENE_ZEROED:
		rc = conformance_device_write(fd, r.offset, r.length, 0, err);
		break;
	case SCENE_ONE_BYTE:
		r.offset += SCENE_BLOCK / 3;
		r.length = 1;
		rc = conformance_device_write(fd, r.offset, 1, SECOND_DATA, err);
		break;
	case SCENE_DISCARDED:
		rc = conformance_device_discard(fd, r.offset, r.length, err);
		if (rc == CAIRN_UNIMPLEMENTED) {
			scene->no_discard = true;
			return 0;
		}
		break;
	default:
		rc = conformance_device_write(fd, r.offset, r.length, SECOND_DATA, err);
	}
	return rc ? rc : scene_remember(scene, r, err);
}

/* Writes every second block from the end of the first quarter on, and the last one. */
static int write_dense(struct scene *scene, enum scene_kind kind, unsigned version,
		       struct cairn_err *err)
{
	uint64_t end = scene->volume->size / SCENE_BLOCK * SCENE_BLOCK;
	struct scene_range r = {.length = SCENE_BLOCK, .kind = kind};
	unsigned count = 0;
	int rc = 0;

	for (r.offset = end / 4 / SCENE_BLOCK * SCENE_BLOCK;
	     !rc && count < DENSE_MAX && r.offset < end - 2ULL * SCENE_BLOCK;
	     r.offset += 2ULL * SCENE_BLOCK, count++) {
		rc = conformance_device_write(scene->volume->fd, r.offset, r.length, version, err);
		if (!rc)
			rc = scene_remember(scene, r, err);
	}
	r.offset = end - SCENE_BLOCK;
	if (!rc)
		rc = conformance_device_write(scene->volume->fd, r.offset, r.length, version, err);
	return rc ? rc : scene_remember(scene, r, err);
}

static int write_phase(struct scene *scene, bool second, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
		for (unsigned slot = plan[i].from; !rc && slot <= plan[i].to; slot++)
			rc = second ? write_second(scene, &plan[i], slot, err)
				    : write_first(scene, &plan[i], slot, err);
	}
	if (rc)
		return rc;
	return second ? write_dense(scene, SCENE_OVERWRITTEN, SECOND_DATA, err)
		      : write_dense(scene, SCENE_WRITTEN, FIRST_DATA, err);
}

static int make_main(struct scene *scene, struct cairn_err *err)
{
	uint64_t size;
	int rc = scene_add_volume(scene, "main", scene->size, NULL, &scene->volume, err);

	if (!rc)
		rc = conformance_device_size(scene->volume->fd, &size, err);
	if (!rc && size < SCENE_SIZE_MIN)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "the device has %llu bytes only",
				   (unsigned long long)size);
	if (rc)
		return rc;
	if (size < scene->volume->size)
		scene->volume->size = size;
	rc = scene_add_snapshot(scene, scene->volume, "empty", &scene->empty, err);
	if (!rc)
		rc = write_phase(scene, false, err);
	if (!rc)
		rc = scene_add_snapshot(scene, scene->volume, "first", &scene->first, err);
	if (!rc)
		rc = write_phase(scene, true, err);
	if (!rc)
		rc = scene_add_snapshot(scene, scene->volume, "second", &scene->second, err);
	return rc ? rc : scene_add_snapshot(scene, scene->volume, "same", &scene->same, err);
}

/* Runs `make` once and returns the same result later. */
static int scene_once(struct scene *scene, int *state, struct cairn_err *kept,
		      int (*make)(struct scene *scene, struct cairn_err *err),
		      struct cairn_err *err)
{
	if (*state > 0)
		*state = make(scene, kept);
	if (*state)
		*err = *kept;
	return *state;
}

int conformance_scene_main(struct scene *scene, struct cairn_err *err)
{
	return scene_once(scene, &scene->main_state, &scene->main_err, make_main, err);
}

/* --- the others --- */

static int make_grown(struct scene *scene, struct cairn_err *err)
{
	uint64_t old = 0, size = 0;
	int rc = scene_add_volume(scene, "grown", scene->size / 2, NULL, &scene->grown, err);

	if (!rc)
		rc = conformance_device_write(scene->grown->fd, 0, SLOT, FIRST_DATA, err);
	if (!rc)
		rc = scene_add_snapshot(scene, scene->grown, "before", &scene->before_growth, err);
	if (rc)
		return rc;
	old = scene->grown->size;
	rc = conformance_volume_expand(scene->target, scene->grown, old + scene->size / 2, err);
	if (!rc)
		rc = conformance_device_size(scene->grown->fd, &size, err);
	if (!rc && size < old + SLOT)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "the device did not grow");
	if (rc)
		return rc;
	scene->grown_range = (struct scene_range){.offset = old, .length = SLOT, .kind = SCENE_NEW};
	rc = conformance_device_write(scene->grown->fd, old, SLOT, SECOND_DATA, err);
	return rc ? rc
		  : scene_add_snapshot(scene, scene->grown, "after", &scene->after_growth, err);
}

int conformance_scene_grown(struct scene *scene, struct cairn_err *err)
{
	return scene_once(scene, &scene->grown_state, &scene->grown_err, make_grown, err);
}

static int make_other(struct scene *scene, struct cairn_err *err)
{
	int rc = scene_add_volume(scene, "other", scene->size / 4, NULL, &scene->other, err);

	if (!rc)
		rc = conformance_device_write(scene->other->fd, SLOT, SLOT, FIRST_DATA, err);
	return rc ? rc : scene_add_snapshot(scene, scene->other, "other", &scene->of_other, err);
}

int conformance_scene_other(struct scene *scene, struct cairn_err *err)
{
	return scene_once(scene, &scene->other_state, &scene->other_err, make_other, err);
}

static int make_group(struct scene *scene, struct cairn_err *err)
{
	struct group *g = &scene->group;
	int rc = conformance_scene_other(scene, err);

	if (rc)
		return rc;
	g->name = cairn_printf("conformance-%s-group", scene->run);
	g->volume_id = cairn_strdup(scene->other->id);
	if (!g->name || !g->volume_id)
		return cairn_err_nomem(err, "group");
	return conformance_group_create(scene->target, g, err);
}

int conformance_scene_group(struct scene *scene, struct cairn_err *err)
{
	return scene_once(scene, &scene->group_state, &scene->group_err, make_group, err);
}

int conformance_scene_restore(struct scene *scene, const struct snapshot *from, struct volume **ret,
			      struct cairn_err *err)
{
	return scene_add_volume(scene, "restored", from->size ? from->size : scene->volume->size,
				from, ret, err);
}

int conformance_scene_disturb(struct scene *scene, struct cairn_err *err)
{
	uint64_t start = scene->volume->size / 4 * 3 / SCENE_BLOCK * SCENE_BLOCK;
	int rc = conformance_device_write(scene->volume->fd, start, scene->volume->size - start,
					  FIRST_DATA, err);

	return rc ? rc : conformance_device_sync(scene->volume->fd, err);
}

/* Snapshots first: not every driver can delete a volume before them. A second round
 * removes what the first could not, such as a snapshot in use. */
void conformance_scene_clean(struct scene *scene, void (*tell)(void *arg, const char *text),
			     void *arg)
{
	for (int round = 0; round < 2; round++) {
		struct cairn_err err = {0};

		if (conformance_group_remove(scene->target, &scene->group, &err) && round)
			tell(arg, err.msg);
		for (size_t i = scene->n_snapshots; i-- > 0;) {
			if (conformance_snapshot_remove(scene->target, &scene->snapshots[i],
							&err) &&
			    round)
				tell(arg, err.msg);
		}
		for (size_t i = scene->n_volumes; i-- > 0;) {
			if (conformance_volume_remove(scene->target, &scene->volumes[i], &err) &&
			    round)
				tell(arg, err.msg);
		}
	}
	conformance_group_free(&scene->group);
	for (size_t i = 0; i < scene->n_snapshots; i++)
		conformance_snapshot_free(&scene->snapshots[i]);
	for (size_t i = 0; i < scene->n_volumes; i++)
		conformance_volume_free(&scene->volumes[i]);
	if (scene->dir && rmdir(scene->dir) != 0 && errno != ENOENT)
		tell(arg, "the driver left something at its paths");
	free(scene->dir);
	free(scene->ranges);
}
