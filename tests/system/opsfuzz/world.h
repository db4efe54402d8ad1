/* SPDX-License-Identifier: Apache-2.0 */

/* A pool under test and everything the test knows about it. */
#ifndef CAIRN_TESTS_OPSFUZZ_WORLD_H
#define CAIRN_TESTS_OPSFUZZ_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "content.h"
#include "pool/pool.h"

#define VOLUMES_MAX     6
#define VOLUME_SIZE_MIN (1U << 20)
#define VOLUME_SIZE_MAX (40U << 20)
#define LIVE_MAX        90 /* snapshots that are live and remembered */
#define GRAVES_MAX      60 /* tombstones whose content is remembered */
#define ACTS            15
#define PATH_TEXT_MAX   512

/* How a volume is written to. */
enum use {
	USE_FILE,
	USE_DEVICE,  /* attached */
	USE_MOUNTED, /* attached, with a mounted filesystem on it */
};

struct shot {
	char id[POOL_ID_MAX + 1];
	struct shot *parent;
	struct content content;
	bool deleted;
	uint64_t expires_ns;
};

struct vol {
	char name[64];
	enum use use;
	char device[64];
	int hold;       /* of the device: its last close would write its dirty pages down */
	bool formatted; /* a filesystem was made and nobody wrote past it since */
	bool known;     /* `content` is what it holds */
	struct content content;
	struct shot *head;
};

struct stats {
	uint64_t fresh;    /* blocks that differ between a snapshot and its predecessor */
	uint64_t changed;  /* the same over all pairs that were compared */
	uint64_t reported; /* blocks that the pool reported for those */
	uint64_t pairs, refused, snapshots;
	uint64_t mounted;    /* snapshots of volumes with a mounted filesystem */
	uint64_t acts[ACTS]; /* how often each was done */
};

/* Where a pool lives. */
struct place {
	const char *name;
	enum pool_backend backend;
	enum { BASE_PLAIN, BASE_XFS, BASE_BTRFS, BASE_BTRFS_COMPRESSED } base;
	bool needs_mount;
	bool is_btrfs;
};

struct world {
	const struct place *place;
	struct dice dice;       /* for what is done */
	struct dice check_dice; /* for what is looked at: that depends on what expired */
	uint64_t seed, step;
	uint64_t scale;  /* more blocks between two snapshots */
	char fault[200]; /* the first that a check of the pool found */
	bool can_attach, verbose, keep;
	char dir[PATH_TEXT_MAX];  /* of this run; holds all that follows */
	char base[PATH_TEXT_MAX]; /* the filesystem under the pool */
	char pool_dir[PATH_TEXT_MAX];
	struct pool *pool;
	uint64_t retention_ms;
	struct vol vols[VOLUMES_MAX];
	size_t n_vols;
	struct shot **shots; /* all that ever were */
	size_t n_shots, names;
	struct stats stats;
	struct cairn_err err; /* for must() */
	bool balancing;
	pthread_t balance;
};

/* Makes the directory, the filesystem and the pool. False: cannot be had on
 * this machine; `reason` says why. */
bool world_begin(struct world *world, const char *scratch, char *reason, size_t n);

/* Takes everything down again. */
void world_end(struct world *world);

/* Says what went wrong and how to see it again, takes down and exits. */
void world_fail(struct world *world, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* For what cannot fail here; `expr` leaves its error in world->err. */
#define must(world, expr)                                                           \
	do {                                                                        \
		int must_rc_ = (expr);                                              \
		if (must_rc_ != 0)                                                  \
			world_fail((world), "%s: %s (%s)", #expr, (world)->err.msg, \
				   cairn_code_name(must_rc_));                      \
	} while (0)

/* ---- what is done to it -------------------------------------------------- */

/* change.c: the bytes of one volume, through file, device or filesystem. */
void change_volume(struct world *world, struct vol *vol);
/* Reads the whole volume anew. */
void change_learn(struct world *world, struct vol *vol);

/* mounted.c */
void mounted_change(struct world *world, struct vol *vol);
void mounted_begin(struct world *world, struct vol *vol);
void mounted_end(struct world *world, struct vol *vol);
void mounted_path(const struct world *world, const struct vol *vol, char out[PATH_TEXT_MAX]);
/* A thread that writes until it is stopped. */
struct mounted_writer;
struct mounted_writer *mounted_writer_start(struct world *world, struct vol *vol);
void mounted_writer_stop(struct mounted_writer *writer);

/* shots.c: a snapshot whose content is remembered, NULL when none was found
 * soon; snapshots of several volumes at once, each compared with others. */
struct shot *shots_any(struct world *world, struct dice *dice, bool live);
struct shot *shots_add(struct world *world, const struct pool_snapshot *made);
/* The shot holds what the volume does, and is its head. */
void shots_know(struct world *world, struct vol *vol, struct shot *shot);
void shots_take(struct world *world, struct vol **vols, size_t n);
void shots_delete(struct world *world, struct shot *shot);
/* Keeps what the test remembers within bounds: the oldest go. */
void shots_forget_old(struct world *world);

/* act.c: volumes and snapshots come and go. */
void act_once(struct world *world);
const char *act_name(size_t act);
struct vol *act_create_volume(struct world *world, uint64_t size);

/* check.c: the pool's answers against the truth. Returns how many blocks truly
 * differ. `base` NULL: what is allocated. */
bool check_is_ancestor(const struct shot *old, const struct shot *young);
uint64_t check_pair(struct world *world, struct shot *base, struct shot *target, uint64_t start);
void check_content(struct world *world, struct shot *shot);
void check_read(struct world *world, struct shot *shot);

#endif
