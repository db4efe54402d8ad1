/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots: taken, deleted, remembered, and picked for comparison. */

#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A snapshot whose content is remembered; NULL when none was found soon. */
struct shot *shots_any(struct world *world, struct dice *dice, bool live)
{
	for (int i = 0; i < 100 && world->n_shots > 0; i++) {
		/* The last hundred or so are those that still have content. */
		uint64_t back = dice_below(dice, world->n_shots < 300 ? world->n_shots : 300);
		struct shot *shot = world->shots[world->n_shots - 1 - back];

		if (shot->content.sums && !(live && shot->deleted))
			return shot;
	}
	return NULL;
}

/* One that comes before it, near or far. */
static struct shot *any_ancestor(struct world *world, struct shot *shot)
{
	struct shot *found = NULL;

	for (uint64_t n = 1 + dice_below(&world->check_dice, 30); n > 0 && shot->parent; n--) {
		shot = shot->parent;
		if (shot->content.sums)
			found = shot;
	}
	return found;
}

static const struct shot *root_of(const struct shot *shot)
{
	while (shot->parent)
		shot = shot->parent;
	return shot;
}

/* One on another branch of the same tree. */
static struct shot *any_cousin(struct world *world, const struct shot *shot)
{
	for (int i = 0; i < 20; i++) {
		struct shot *other = shots_any(world, &world->check_dice, false);

		if (other && root_of(other) == root_of(shot) && !check_is_ancestor(other, shot) &&
		    !check_is_ancestor(shot, other))
			return other;
	}
	return NULL;
}

static struct shot *find_shot(struct world *world, const char *id)
{
	for (size_t i = world->n_shots; i > 0 && id[0]; i--)
		if (strcmp(world->shots[i - 1]->id, id) == 0)
			return world->shots[i - 1];
	return NULL;
}

struct shot *shots_add(struct world *world, const struct pool_snapshot *made)
{
	struct shot *shot = calloc(1, sizeof(*shot));
	struct shot **shots = reallocarray(world->shots, world->n_shots + 1, sizeof(struct shot *));

	if (!shot || !shots)
		world_fail(world, "out of memory");
	world->shots = shots;
	memcpy(shot->id, made->id, sizeof(shot->id));
	shot->parent = find_shot(world, made->parent);
	shot->deleted = made->deleted;
	shot->expires_ns = made->expires_ns;
	world->shots[world->n_shots++] = shot;
	world->stats.snapshots++;
	return shot;
}

static struct shot *any_base(struct world *world, struct shot *target)
{
	switch (target ? dice_below(&world->check_dice, 5) : 4) {
	case 0:
	case 1:
		return any_ancestor(world, target);
	case 2:
	case 3:
		return any_cousin(world, target);
	default:
		return shots_any(world, &world->check_dice, false);
	}
}

/* Compares with the predecessor and a few others. */
static void check_new(struct world *world, struct shot *shot)
{
	if (shot->parent && shot->parent->content.sums)
		world->stats.fresh += check_pair(world, shot->parent, shot, 0);
	if (dice_one_in(&world->check_dice, 4))
		check_pair(world, NULL, shot, 0);
	for (uint64_t n = dice_below(&world->check_dice, 9); n > 0; n--) {
		struct shot *target = dice_one_in(&world->check_dice, 3)
					      ? shots_any(world, &world->check_dice, true)
					      : shot;
		struct shot *base = any_base(world, target);
		uint64_t start = 0;

		if (!base || !target)
			continue;
		if (dice_one_in(&world->check_dice, 4))
			start = dice_below(&world->check_dice, target->content.size + 1);
		check_pair(world, dice_one_in(&world->check_dice, 20) ? NULL : base, target, start);
	}
}

void shots_know(struct world *world, struct vol *vol, struct shot *shot)
{
	/* A live predecessor must be what the new one is compared with. */
	if (vol->head && !vol->head->deleted && shot->parent != vol->head)
		world_fail(world, "%s does not follow %s", shot->id, vol->head->id);
	if (vol->known) {
		content_copy(&shot->content, &vol->content, vol->content.size);
		if (vol->use == USE_DEVICE || dice_one_in(&world->dice, 5))
			check_content(world, shot);
	} else {
		content_init(&shot->content, vol->content.size);
		check_read(world, shot);
	}
	vol->head = shot;
}

void shots_take(struct world *world, struct vol **vols, size_t n)
{
	struct mounted_writer *writer = NULL;
	struct pool_snapshot_spec specs[VOLUMES_MAX] = {0};
	struct pool_snapshot made[VOLUMES_MAX];
	struct shot *shots[VOLUMES_MAX];
	char names[VOLUMES_MAX][32];

	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "s%zu", world->names++);
		specs[i] = (struct pool_snapshot_spec){vols[i]->name, names[i]};
		if (vols[i]->use == USE_MOUNTED && !writer && dice_one_in(&world->dice, 3))
			writer = mounted_writer_start(world, vols[i]);
	}
	must(world, pool_snapshot_create(world->pool, specs, n, made, &world->err));
	for (size_t i = 0; i < n; i++)
		world->stats.mounted += vols[i]->use == USE_MOUNTED;
	if (writer)
		mounted_writer_stop(writer);
	for (size_t i = 0; i < n; i++) {
		shots[i] = shots_add(world, &made[i]);
		if (made[i].size != vols[i]->content.size)
			world_fail(world, "%s has a wrong size", made[i].id);
		shots_know(world, vols[i], shots[i]);
		if (!dice_one_in(&world->dice, 3))
			must(world,
			     pool_snapshot_complete(world->pool, made[i].id, NULL, &world->err));
	}
	for (size_t i = 0; i < n; i++)
		check_new(world, shots[i]);
}

void shots_delete(struct world *world, struct shot *shot)
{
	struct pool_snapshot now;
	struct cairn_err err = {0};

	must(world, pool_snapshot_delete(world->pool, shot->id, &world->err));
	shot->deleted = true;
	shot->expires_ns = cairn_now_ns();
	if (pool_snapshot_get(world->pool, shot->id, &now, &err) == 0)
		shot->expires_ns = now.expires_ns;
	else if (world->retention_ms > 60000)
		world_fail(world, "%s is gone too early: %s", shot->id, err.msg);
}

/* Keeps what the test remembers within bounds: the oldest go. */
void shots_forget_old(struct world *world)
{
	size_t live = 0, graves = 0;

	for (size_t i = world->n_shots; i > 0; i--) {
		struct shot *shot = world->shots[i - 1];

		if (!shot->content.sums)
			continue;
		if (!shot->deleted && ++live > LIVE_MAX)
			shots_delete(world, shot);
		if (shot->deleted && ++graves > GRAVES_MAX)
			content_done(&shot->content);
	}
}
