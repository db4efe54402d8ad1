/* SPDX-License-Identifier: Apache-2.0 */

/* Never missed: random operations on pools of every back end, and every answer
 * held against what the test itself wrote.
 *
 * `changed` counts blocks that truly differ, over all pairs of snapshots that
 * were compared; `fresh` only those between a snapshot and its predecessor.
 *
 * Ends with 0 when nothing was missed, 1 at the first wrong answer, 77 when no
 * back end can be had on this machine. The same seed gives the same operations;
 * only when things expire is up to the clock.
 */

#include "world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/random.h"

static const struct place places[] = {
	{"btrfs", POOL_BACKEND_BTRFS, BASE_PLAIN, true, true},
	{"btrfs-compressed", POOL_BACKEND_BTRFS, BASE_BTRFS_COMPRESSED, true, true},
	{"reflink-xfs", POOL_BACKEND_REFLINK, BASE_XFS, true, false},
	{"reflink-btrfs", POOL_BACKEND_REFLINK, BASE_BTRFS, true, true},
	{"reflink-btrfs-compressed", POOL_BACKEND_REFLINK, BASE_BTRFS_COMPRESSED, true, true},
	{"copy", POOL_BACKEND_COPY, BASE_PLAIN, false, false},
	{"copy-xfs", POOL_BACKEND_COPY, BASE_XFS, true, false},
};

#define PLACES (sizeof(places) / sizeof(places[0]))

/* After so many changed blocks at most the next pool is made. */
#define EPOCH_BLOCKS 200000U

/* Room for what a pool takes at its largest. */
#define SPACE_MIN (6ULL << 30)

static struct options {
	uint64_t blocks, seed, scale, seconds_ms;
	bool seed_given, verbose, keep;
	const char *backend, *dir;
} options = {.scale = 1, .seconds_ms = UINT64_MAX, .backend = "all"};

static const struct cairn_flag flags[] = {
	{.name = "blocks", .kind = CAIRN_FLAG_U64, .target = &options.blocks},
	{.name = "seed",
	 .kind = CAIRN_FLAG_U64,
	 .target = &options.seed,
	 .given = &options.seed_given},
	{.name = "scale", .kind = CAIRN_FLAG_U64, .target = &options.scale},
	{.name = "seconds", .kind = CAIRN_FLAG_DURATION, .target = &options.seconds_ms},
	{.name = "backend", .kind = CAIRN_FLAG_STRING, .target = &options.backend},
	{.name = "dir", .kind = CAIRN_FLAG_STRING, .target = &options.dir},
	{.name = "verbose", .letter = 'v', .kind = CAIRN_FLAG_BOOL, .target = &options.verbose},
	{.name = "keep", .kind = CAIRN_FLAG_BOOL, .target = &options.keep},
	CAIRN_FLAG_END,
};

/* Set by a signal: the pool under test is still taken down. */
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	interrupted = number;
}

static void catch_signals(void)
{
	const struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static void add_stats(struct stats *sum, const struct stats *one)
{
	sum->fresh += one->fresh;
	sum->changed += one->changed;
	sum->reported += one->reported;
	sum->pairs += one->pairs;
	sum->refused += one->refused;
	sum->snapshots += one->snapshots;
	sum->mounted += one->mounted;
	for (size_t i = 0; i < ACTS; i++)
		sum->acts[i] += one->acts[i];
}

static void fault_found(void *arg, enum pool_fault_state state, const char *line)
{
	struct world *world = arg;

	(void)state;
	if (!world->fault[0])
		snprintf(world->fault, sizeof(world->fault), "%s", line);
}

static void check_pool(struct world *world)
{
	const struct pool_check_spec spec = {.fault = fault_found, .arg = world};
	struct pool_check_result result;

	must(world, pool_check(world->pool, &spec, &result, &world->err));
	if (world->fault[0])
		world_fail(world, "pool check: %s", world->fault);
}

/* One pool from its creation to its end. False: not on this machine. */
static bool run_epoch(const struct place *place, uint64_t seed, uint64_t blocks, uint64_t deadline,
		      struct stats *sum)
{
	struct world *world = calloc(1, sizeof(*world));
	char reason[CAIRN_ERR_TEXT_MAX];
	bool good;

	if (!world)
		exit(1);
	world->place = place;
	world->seed = seed;
	world->dice.state = seed * PLACES + (uint64_t)(place - places);
	world->check_dice.state = ~world->dice.state;
	world->scale = options.scale;
	world->verbose = options.verbose;
	world->keep = options.keep;
	/* Short enough that merges happen all the time, or long enough that
	 * nothing expires. */
	world->retention_ms = (seed + (uint64_t)(place - places)) % 2 ? 150 : 3600000;
	good = world_begin(world, options.dir, reason, sizeof(reason));
	if (good) {
		while (!interrupted && world->stats.changed < blocks &&
		       cairn_monotonic_ns() < deadline)
			act_once(world);
		check_pool(world);
		add_stats(sum, &world->stats);
		world_end(world);
	} else {
		printf("%-24s skipped: %s\n", place->name, reason);
	}
	free(world);
	return good;
}

static void print_stats(const char *name, const struct stats *stats, uint64_t began_ns)
{
	uint64_t over = stats->reported - stats->changed;

	printf("%-24s changed %" PRIu64 " (fresh %" PRIu64
	       ") missed 0 over-reported %.2f %% | %" PRIu64 " pairs, %" PRIu64 " refused, %" PRIu64
	       " snapshots (%" PRIu64 " mounted), %.1f s\n",
	       name, stats->changed, stats->fresh,
	       stats->changed ? 100.0 * (double)over / (double)stats->changed : 0.0, stats->pairs,
	       stats->refused, stats->snapshots, stats->mounted,
	       (double)(cairn_monotonic_ns() - began_ns) / 1e9);
	fflush(stdout);
}

/* Returns false when the place cannot be had. */
static bool run_place(const struct place *place, uint64_t blocks, uint64_t time_ns,
		      struct stats *total)
{
	struct stats sum = {0};
	uint64_t began = cairn_monotonic_ns();
	uint64_t deadline = UINT64_MAX, seed = options.seed;

	if (options.seconds_ms != UINT64_MAX)
		deadline = began + time_ns;
	/* Two pools at least: one that forgets soon, one that does not. */
	while (!interrupted && sum.changed < blocks && cairn_monotonic_ns() < deadline)
		if (!run_epoch(place, seed++,
			       blocks / 2 < EPOCH_BLOCKS ? blocks / 2 + 1 : EPOCH_BLOCKS, deadline,
			       &sum))
			return false;
	print_stats(place->name, &sum, began);
	add_stats(total, &sum);
	return true;
}

static uint64_t default_blocks(void)
{
	const char *thorough = getenv("CAIRN_TEST_THOROUGH");

	return thorough && strcmp(thorough, "1") == 0 ? 500000 : 150000;
}

/* Memory, where there is enough of it: the operations are what counts, not how
 * long a disk takes to sync them. */
static const char *default_dir(void)
{
	struct statvfs fs;

	if (getenv("TMPDIR"))
		return getenv("TMPDIR");
	if (statvfs("/dev/shm", &fs) == 0 && access("/dev/shm", W_OK) == 0 &&
	    (uint64_t)fs.f_bavail * fs.f_frsize >= SPACE_MIN)
		return "/dev/shm";
	return "/tmp";
}

int main(int argc, char **argv)
{
	const struct cairn_flag *const tables[] = {flags, NULL};
	struct cairn_err err = {0};
	struct stats total = {0};
	size_t chosen = 0, ran = 0;
	uint64_t began = cairn_monotonic_ns();
	int rest;

	if (cairn_flags_parse(tables, argc - 1, argv + 1, 0, &rest, &err) != 0 || rest != 0) {
		fprintf(stderr, "opsfuzz: %s\n", err.code ? err.msg : "no arguments are taken");
		return 2;
	}
	if (!options.dir)
		options.dir = default_dir();
	if (!options.blocks)
		options.blocks = default_blocks();
	if (!options.seed_given && cairn_random_bytes(&options.seed, 4, &err) != 0)
		return 2;
	catch_signals();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %" PRIu64 ", in %s\n", options.seed, options.dir);
	for (size_t i = 0; i < PLACES; i++)
		chosen += strcmp(options.backend, "all") == 0 ||
			  strcmp(options.backend, places[i].name) == 0;
	for (size_t i = 0; i < PLACES; i++)
		if (strcmp(options.backend, "all") == 0 ||
		    strcmp(options.backend, places[i].name) == 0)
			ran += run_place(&places[i], (options.blocks + chosen - 1) / chosen,
					 options.seconds_ms / chosen * CAIRN_NS_PER_MS, &total);
	if (ran == 0) {
		printf("skipped: no back end can be had here\n");
		return 77;
	}
	print_stats("all", &total, began);
	if (interrupted)
		return 128 + interrupted;
	printf("operations:");
	for (size_t i = 0; i < ACTS; i++)
		printf(" %s %" PRIu64 "%s", act_name(i), total.acts[i], i + 1 < ACTS ? "," : "\n");
	return 0;
}
