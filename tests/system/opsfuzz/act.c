/* SPDX-License-Identifier: Apache-2.0 */

#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"

#define MOUNT_SIZE_MIN (16U << 20) /* room for ext4 with a journal */

static struct vol *any_vol(struct world *world)
{
	return &world->vols[dice_below(&world->dice, world->n_vols)];
}

/* A snapshot whose content is remembered; NULL when none was found soon. */
static struct shot *any_shot(struct world *world, struct dice *dice, bool live)
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

static struct shot *find_shot(struct world *world, const char *id)
{
	for (size_t i = world->n_shots; i > 0 && id[0]; i--)
		if (strcmp(world->shots[i - 1]->id, id) == 0)
			return world->shots[i - 1];
	return NULL;
}

static struct shot *add_shot(struct world *world, const struct pool_snapshot *made)
{
	struct shot *shot = calloc(1, sizeof(*shot));
	struct shot **shots = reallocarray(world->shots, world->n_shots + 1, sizeof(*world->shots));

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

/* ---- snapshots ----------------------------------------------------------- */

/* Compares with the predecessor and a few others. */
static void check_new(struct world *world, struct shot *shot)
{
	if (shot->parent && shot->parent->content.sums)
		world->stats.fresh += check_pair(world, shot->parent, shot, 0);
	if (dice_one_in(&world->check_dice, 4))
		check_pair(world, NULL, shot, 0);
	for (uint64_t n = dice_below(&world->check_dice, 4); n > 0; n--) {
		struct shot *target = dice_one_in(&world->check_dice, 3)
					      ? any_shot(world, &world->check_dice, true)
					      : shot;
		struct shot *base = target && !dice_one_in(&world->check_dice, 3)
					    ? any_ancestor(world, target)
					    : any_shot(world, &world->check_dice, false);
		uint64_t start = 0;

		if (!base || !target)
			continue;
		if (dice_one_in(&world->check_dice, 4))
			start = dice_below(&world->check_dice, target->content.size + 1);
		check_pair(world, dice_one_in(&world->check_dice, 20) ? NULL : base, target, start);
	}
}

static void know_shot(struct world *world, struct vol *vol, struct shot *shot)
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

static void snapshot_of(struct world *world, struct vol **vols, size_t n)
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
		shots[i] = add_shot(world, &made[i]);
		if (made[i].size != vols[i]->content.size)
			world_fail(world, "%s has a wrong size", made[i].id);
		know_shot(world, vols[i], shots[i]);
		if (!dice_one_in(&world->dice, 3))
			must(world,
			     pool_snapshot_complete(world->pool, made[i].id, NULL, &world->err));
	}
	for (size_t i = 0; i < n; i++)
		check_new(world, shots[i]);
}

static void snapshot_one(struct world *world)
{
	struct vol *vol = any_vol(world);

	snapshot_of(world, &vol, 1);
}

static void snapshot_group(struct world *world)
{
	struct vol *vols[VOLUMES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < world->n_vols; i++)
		if (dice_one_in(&world->dice, 2))
			vols[n++] = &world->vols[i];
	if (n > 0)
		snapshot_of(world, vols, n);
}

static void delete_shot(struct world *world, struct shot *shot)
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

static void delete_snapshot(struct world *world)
{
	struct shot *shot = any_shot(world, &world->dice, true);

	if (shot)
		delete_shot(world, shot);
}

/* Keeps what the test remembers within bounds: the oldest go. */
static void forget_old(struct world *world)
{
	size_t live = 0, graves = 0;

	for (size_t i = world->n_shots; i > 0; i--) {
		struct shot *shot = world->shots[i - 1];

		if (!shot->content.sums)
			continue;
		if (!shot->deleted && ++live > LIVE_MAX)
			delete_shot(world, shot);
		if (shot->deleted && ++graves > GRAVES_MAX)
			content_done(&shot->content);
	}
}

/* ---- volumes ------------------------------------------------------------- */

static struct vol *add_vol(struct world *world, const char *from, uint64_t size,
			   struct pool_volume *ret)
{
	struct vol *vol = &world->vols[world->n_vols];
	struct pool_volume_spec spec = {.name = vol->name, .size = size, .from = from};

	*vol = (struct vol){.known = true, .hold = -1};
	snprintf(vol->name, sizeof(vol->name), "vol %zu@\xc3\xa9", world->names++);
	must(world, pool_volume_create(world->pool, &spec, ret, &world->err));
	world->n_vols++;
	return vol;
}

struct vol *act_create_volume(struct world *world, uint64_t size)
{
	struct pool_volume made;
	struct vol *vol = add_vol(world, NULL, size, &made);

	content_init(&vol->content, size);
	return vol;
}

static void create_volume(struct world *world)
{
	uint64_t size = VOLUME_SIZE_MIN + dice_below(&world->dice, VOLUME_SIZE_MAX / 2);

	if (world->n_vols < VOLUMES_MAX)
		act_create_volume(world, size / SECTOR * SECTOR);
}

/* Size 0 keeps the source's. */
static uint64_t maybe_larger(struct world *world, uint64_t size)
{
	if (!dice_one_in(&world->dice, 3) || size + (1U << 20) > VOLUME_SIZE_MAX)
		return 0;
	return size + dice_below(&world->dice, 1U << 20) / SECTOR * SECTOR;
}

static void restore_snapshot(struct world *world)
{
	struct shot *shot = any_shot(world, &world->dice, true);
	struct pool_volume made;
	struct vol *vol;

	if (!shot || world->n_vols == VOLUMES_MAX)
		return;
	vol = add_vol(world, shot->id, maybe_larger(world, shot->content.size), &made);
	content_copy(&vol->content, &shot->content, made.size);
	vol->head = shot;
	if (strcmp(made.origin, shot->id) != 0)
		world_fail(world, "'%s' comes from %s, not %s", vol->name, made.origin, shot->id);
}

/* The pool cuts a hidden snapshot, from which both go on. */
static void clone_volume(struct world *world)
{
	struct vol *source = any_vol(world);
	struct pool_snapshot hidden;
	struct pool_volume made;
	struct shot *shot;
	struct vol *vol;

	if (world->n_vols == VOLUMES_MAX)
		return;
	vol = add_vol(world, source->name, maybe_larger(world, source->content.size), &made);
	must(world, pool_snapshot_get(world->pool, made.origin, &hidden, &world->err));
	shot = add_shot(world, &hidden);
	content_copy(&vol->content, &source->content, made.size);
	vol->known = source->known;
	if (!vol->known)
		change_learn(world, vol);
	content_copy(&shot->content, &vol->content, source->content.size);
	source->head = vol->head = shot;
}

static void stop_using(struct world *world, struct vol *vol)
{
	if (vol->use == USE_MOUNTED)
		mounted_end(world, vol);
	if (vol->hold >= 0)
		close(vol->hold);
	vol->hold = -1;
	if (vol->use == USE_DEVICE)
		must(world, pool_volume_detach(world->pool, vol->name, &world->err));
	vol->use = USE_FILE;
}

static void delete_volume(struct world *world)
{
	struct vol *vol = any_vol(world);

	if (world->n_vols < 2)
		return;
	stop_using(world, vol);
	must(world,
	     pool_volume_delete(world->pool, vol->name, POOL_DELETE_KEEP_SNAPSHOTS, &world->err));
	content_done(&vol->content);
	*vol = world->vols[--world->n_vols];
}

static void grow_volume(struct world *world)
{
	struct vol *vol = any_vol(world);
	uint64_t size = vol->content.size + dice_below(&world->dice, 2U << 20) / SECTOR * SECTOR;
	struct pool_volume now;

	if (size > VOLUME_SIZE_MAX)
		return;
	must(world, pool_volume_expand(world->pool, vol->name, size, &now, &world->err));
	if (now.size != size)
		world_fail(world, "'%s' did not grow", vol->name);
	content_grow(&vol->content, size);
}

static void change_use(struct world *world)
{
	struct vol *vol = any_vol(world);

	if (!world->can_attach)
		return;
	if (vol->use == USE_FILE) {
		must(world, pool_volume_attach(world->pool, vol->name, false, vol->device,
					       sizeof(vol->device), &world->err));
		vol->use = USE_DEVICE;
		vol->hold = open(vol->device, O_RDONLY | O_CLOEXEC);
	} else if (vol->use == USE_DEVICE && vol->content.size >= MOUNT_SIZE_MIN &&
		   !dice_one_in(&world->dice, 3)) {
		mounted_begin(world, vol);
	} else {
		stop_using(world, vol);
	}
}

/* ---- upkeep -------------------------------------------------------------- */

static void expire(struct world *world)
{
	size_t merged = 0;

	must(world,
	     pool_expire(world->pool, 1 + dice_below(&world->dice, 10), &merged, &world->err));
	world->stats.merged += merged;
}

static void defragment(struct world *world)
{
	struct vol *vol = any_vol(world);
	struct btrfs_ioctl_defrag_range_args args = {.len = UINT64_MAX};
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;

	if (!world->place->is_btrfs)
		return;
	must(world, pool_volume_path(world->pool, vol->name, &path, &world->err));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (dice_one_in(&world->dice, 2))
		args.extent_thresh = 1U << 20;
	if (fd < 0 || ioctl(fd, BTRFS_IOC_DEFRAG_RANGE, &args) < 0)
		world_fail(world, "defragment: errno %d", errno);
}

static void *balance(void *arg)
{
	struct world *world = arg;

	/* Refused while another one runs or space is short: no matter. */
	(void)cairn_run((const char *const[]){"btrfs", "balance", "start", "-dlimit=3", "-mlimit=2",
					      world->base, NULL},
			NULL);
	return NULL;
}

/* Runs beside all that follows. */
static void start_balance(struct world *world)
{
	if (!world->place->is_btrfs || !world->can_attach)
		return;
	if (world->balancing)
		pthread_join(world->balance, NULL);
	world->balancing = pthread_create(&world->balance, NULL, balance, world) == 0;
}

static void open_again(struct world *world)
{
	const struct pool_open_spec spec = {.dir = world->pool_dir,
					    .lock_wait_ms = POOL_LOCK_WAIT_DEFAULT_MS};

	pool_close(world->pool);
	world->pool = NULL;
	must(world, pool_open(&spec, &world->pool, &world->err));
}

static void change(struct world *world)
{
	change_volume(world, any_vol(world));
}

static const struct {
	void (*act)(struct world *world);
	unsigned weight;
	const char *name;
} acts[ACTS] = {
	{change, 800, "change"},
	{snapshot_one, 250, "snapshot"},
	{snapshot_group, 25, "group snapshot"},
	{delete_snapshot, 130, "delete snapshot"},
	{create_volume, 8, "create volume"},
	{restore_snapshot, 20, "restore"},
	{clone_volume, 20, "clone"},
	{delete_volume, 25, "delete volume"},
	{grow_volume, 25, "grow"},
	{change_use, 60, "attach or mount"},
	{expire, 50, "expire"},
	{defragment, 6, "defragment"},
	{start_balance, 1, "balance"},
	{open_again, 5, "open again"},
};

const char *act_name(size_t act)
{
	return acts[act].name;
}

void act_once(struct world *world)
{
	unsigned total = 0, at;

	for (size_t i = 0; i < ACTS; i++)
		total += acts[i].weight;
	at = (unsigned)dice_below(&world->dice, total);
	for (size_t i = 0; i < ACTS; i++) {
		if (at < acts[i].weight) {
			if (world->verbose)
				fprintf(stderr, "%" PRIu64 " %s\n", world->step, acts[i].name);
			acts[i].act(world);
			world->stats.acts[i]++;
			break;
		}
		at -= acts[i].weight;
	}
	forget_old(world);
	world->step++;
}
