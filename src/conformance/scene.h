/* SPDX-License-Identifier: Apache-2.0 */

/* The tested objects: volumes with a known history, created on first use.
 *
 * The main volume is cut four times:
 *
 *   empty     before anything was written
 *   first     after blocks all over it, a long run, and every second block of
 *             its last three quarters were written
 *   second    after some of these were overwritten, zeroed, discarded, changed
 *             in one byte or written again as they were, and others written
 *             for the first time
 *   same      right after that
 *
 * Every byte that counts as changed has a new value, so that a driver that compares bytes
 * must report it too. conformance_scene_clean() removes all objects, also after failures.
 */
#ifndef CAIRN_CONFORMANCE_SCENE_H
#define CAIRN_CONFORMANCE_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "conformance/group_scene.h"
#include "conformance/scene_volume.h"

struct target;

#define SCENE_BLOCK    4096U
#define SCENE_SIZE_MIN (16ULL << 20)

/* Kinds of change, as bits. */
enum scene_kind {
	SCENE_WRITTEN = 1,     /* before `first` */
	SCENE_NEW = 2,         /* not written before */
	SCENE_OVERWRITTEN = 4, /* with other bytes */
	SCENE_ZEROED = 8,      /* with zeros */
	SCENE_DISCARDED = 16,  /* hole punched */
	SCENE_ONE_BYTE = 32,   /* one byte in a block */
	SCENE_SAME = 64,       /* with the same bytes: need not be reported */
};

struct scene_range {
	uint64_t offset;
	uint64_t length;
	enum scene_kind kind;
	bool gone; /* written before `first`, zeros in `second` */
};

#define SCENE_VOLUMES_MAX   8U
#define SCENE_SNAPSHOTS_MAX 16U

struct scene {
	struct target *target;
	uint64_t size; /* requested size */
	char run[17];  /* random part of all names */
	char *dir;     /* directory of this run */

	struct volume volumes[SCENE_VOLUMES_MAX];
	size_t n_volumes;
	struct snapshot snapshots[SCENE_SNAPSHOTS_MAX];
	size_t n_snapshots;

	/* The main volume, and the result of creating it: 1 before, else a code. */
	int main_state;
	struct cairn_err main_err;
	struct volume *volume;
	struct snapshot *empty, *first, *second, *same;
	struct scene_range *ranges;
	size_t n_ranges;
	bool no_discard; /* the device does not support discard */

	/* A volume that grew between two snapshots. */
	int grown_state;
	struct cairn_err grown_err;
	struct volume *grown;
	struct snapshot *before_growth, *after_growth;
	struct scene_range grown_range; /* written in the added part */

	/* Another volume with one snapshot. */
	int other_state;
	struct cairn_err other_err;
	struct volume *other;
	struct snapshot *of_other;

	/* A group snapshot of that volume. */
	int group_state;
	struct cairn_err group_err;
	struct group group;
};

/* `parent` is the parent of this run's directory. */
int conformance_scene_init(struct scene *scene, struct target *target, uint64_t size,
			   const char *parent, struct cairn_err *err);

/* Each function creates its part on the first call; later calls return the same result. */
int conformance_scene_main(struct scene *scene, struct cairn_err *err);
int conformance_scene_grown(struct scene *scene, struct cairn_err *err);
int conformance_scene_other(struct scene *scene, struct cairn_err *err);
int conformance_scene_group(struct scene *scene, struct cairn_err *err);

/* Creates a volume from a snapshot and publishes it. */
int conformance_scene_restore(struct scene *scene, const struct snapshot *from, struct volume **ret,
			      struct cairn_err *err);

/* Overwrites the last quarter of the main volume with its contents in `first`. */
int conformance_scene_disturb(struct scene *scene, struct cairn_err *err);

/* Removes all objects; reports each failure to `tell` and continues. */
void conformance_scene_clean(struct scene *scene, void (*tell)(void *arg, const char *text),
			     void *arg);

#endif
