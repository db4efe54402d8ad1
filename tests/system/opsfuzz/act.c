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

/* ---- snapshots ------------------------------------------------------------ */

static void snapshot_one(struct world *world)
{
	struct vol *vol = any_vol(world);

	shots_take(world, &vol, 1);
}

static void snapshot_group(struct world *world)
{
	struct vol *vols[VOLUMES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < world->n_vols; i++)
		if (dice_one_in(&world->dice, 2))
			vols[n++] = &world->vols[i];
	if (n > 0)
		shots_take(world, vols, n);
}

static void delete_snapshot(struct world *world)
{
	struct shot *shot = shots_any(world, &world->dice, true);

	if (shot)
		shots_delete(world, shot);
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
	struct shot *shot = shots_any(world, &world->dice, true);
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
	shot = shots_add(world, &hidden);
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

/* A live snapshot of the volume whose content is remembered. */
static struct shot *any_shot_of(struct world *world, const struct vol *vol)
{
	struct pool_volume volume;

	must(world, pool_volume_get(world->pool, vol->name, &volume, &world->err));
	for (int i = 0; i < 50; i++) {
		struct shot *shot = shots_any(world, &world->dice, true);
		struct pool_snapshot found;

		if (!shot)
			return NULL;
		must(world, pool_snapshot_get(world->pool, shot->id, &found, &world->err));
		if (strcmp(found.volume_id, volume.id) == 0)
			return shot;
	}
	return NULL;
}

/* Half of them keep what the volume held, and are checked against it later like any
 * other snapshot. What is in use is refused and stays as it is. */
static void roll_back(struct world *world)
{
	struct vol *vol = any_vol(world);
	struct shot *shot = any_shot_of(world, vol);
	struct pool_rollback_spec spec = {.snapshot = shot ? shot->id : NULL};
	struct pool_rollback_result result;
	struct cairn_err err = {0};
	char name[32];

	if (!shot)
		return;
	if (vol->use != USE_FILE &&
	    pool_volume_rollback(world->pool, &spec, &result, &err) != CAIRN_PRECONDITION)
		world_fail(world, "'%s' was rolled back while in use", vol->name);
	stop_using(world, vol);
	snprintf(name, sizeof(name), "k%zu", world->names++);
	if (dice_one_in(&world->dice, 2))
		spec.keep_as = name;
	must(world, pool_volume_rollback(world->pool, &spec, &result, &world->err));
	if (spec.keep_as)
		shots_know(world, vol, shots_add(world, &result.kept));
	content_copy(&vol->content, &shot->content, vol->content.size);
	vol->known = true;
	vol->formatted = false;
	if (result.volume.size != vol->content.size)
		world_fail(world, "'%s' has another size", vol->name);
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
	{roll_back, 40, "roll back"},
	{change_use, 60, "attach or mount"},
	{expire, 50, "expire"},
	{defragment, 6, "defragment"},
	{start_balance, 8, "balance"},
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
	shots_forget_old(world);
	world->step++;
}
