/* SPDX-License-Identifier: Apache-2.0 */

/* Checks beside a storm: processes make, cut, clone, delete and expire as fast as
 * they can, with tombstones that expire at once, and some are killed. A check, with
 * repair or without, finds no fault, and a repair changes nothing.
 *
 * "--long" runs a thousand checks.
 */

#include "cairntest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "poolfix.h"

#define STORMERS    6U
#define VOLUMES     5U
#define CHECKS      40U
#define CHECKS_LONG 1000U
#define KILL_EVERY  7U    /* checks */
#define WARM_UP     2000U /* operations before the first check */
#define BETWEEN     20U   /* operations from one check to the next */

static unsigned n_checks = CHECKS;
static char dir[64];
static unsigned faults;
static atomic_uint *operations; /* done by all processes */
static char last_fault[512];

static struct pool *open_pool(void)
{
	struct pool_open_spec spec = {.dir = dir, .lock_wait_ms = 60000};
	struct pool *pool = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_open(&spec, &pool, &err), &err);
	return pool;
}

static unsigned dice(unsigned *seed, unsigned sides)
{
	*seed = *seed * 1103515245U + 12345U;
	return (*seed >> 16) % sides;
}

static void write_something(struct pool *pool, const char *volume, unsigned block)
{
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;

	if (pool_volume_path(pool, volume, &path, NULL) == 0)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!pwrite(fd, "storm", 5, (off_t)(block * BLK));
}

/* One operation on something that may not be there: failing is fine. */
static void do_something(struct pool *pool, unsigned *seed)
{
	struct pool_volume_settings settings = {.set_retention = true,
						.retention_ms = 1 + dice(seed, 50)};
	char volume[16], other[16], name[16], snapshot[40];
	struct pool_volume_spec spec = {.name = volume};
	struct pool_snapshot_spec take = {.volume = volume, .name = name};
	struct pool_snapshot made;
	struct pool_volume created;
	size_t merged;

	snprintf(volume, sizeof(volume), "v%u", dice(seed, VOLUMES));
	snprintf(other, sizeof(other), "v%u", dice(seed, VOLUMES));
	snprintf(name, sizeof(name), "s%u", dice(seed, 6));
	snprintf(snapshot, sizeof(snapshot), "%s@%s", other, name);
	switch (dice(seed, 16)) {
	case 0:
		spec.size = 64 * KIB;
		(void)pool_volume_create(pool, &spec, &created, NULL);
		break;
	case 1:
		spec.from = snapshot;
		(void)pool_volume_create(pool, &spec, &created, NULL);
		break;
	case 2:
		spec.from = other;
		(void)pool_volume_create(pool, &spec, &created, NULL);
		break;
	case 3:
		(void)pool_volume_delete(
			pool, volume,
			dice(seed, 2) ? POOL_DELETE_SNAPSHOTS : POOL_DELETE_KEEP_SNAPSHOTS, NULL);
		break;
	case 4:
		(void)pool_volume_expand(pool, volume, (64 + 4ULL * dice(seed, 8)) * KIB, &created,
					 NULL);
		break;
	case 5:
		(void)pool_volume_modify(pool, volume, &settings, &created, NULL);
		break;
	case 6:
	case 7:
	case 8:
		(void)pool_snapshot_delete(pool, snapshot, NULL);
		break;
	case 9:
		(void)pool_expire(pool, SIZE_MAX, &merged, NULL);
		break;
	case 10:
		(void)pool_snapshot_complete(pool, snapshot, NULL, NULL);
		break;
	default:
		write_something(pool, volume, dice(seed, 16));
		(void)pool_snapshot_create(pool, &take, 1, &made, NULL);
		break;
	}
}

static pid_t start_stormer(unsigned seed)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (struct pool *pool = open_pool();;) {
		do_something(pool, &seed);
		atomic_fetch_add(operations, 1);
	}
}

static void wait_for_operations(unsigned n)
{
	unsigned start = atomic_load(operations);

	while (atomic_load(operations) - start < n)
		usleep(500);
}

static void stop_stormer(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void keep_fault(void *arg, enum pool_fault_state state, const char *line)
{
	(void)arg;
	faults++;
	print_error("fault (%d): %s\n", (int)state, line);
	snprintf(last_fault, sizeof(last_fault), "%s", line);
}

static struct pool_check_result run_check(struct pool *pool, bool repair)
{
	struct pool_check_spec spec = {.fault = keep_fault, .repair = repair};
	struct pool_check_result result = {0};
	struct cairn_err err = {0};

	assert_ok(pool_check(pool, &spec, &result, &err), &err);
	assert_int_equal(result.found, 0);
	assert_int_equal(result.quarantined, 0);
	return result;
}

static void a_check_finds_nothing_beside_a_storm(void **state)
{
	pid_t stormers[STORMERS];
	uint64_t sets = 0;
	struct pool *pool;

	(void)state;
	for (unsigned i = 0; i < STORMERS; i++)
		stormers[i] = start_stormer(i + 1);
	pool = open_pool();
	wait_for_operations(WARM_UP);
	for (unsigned i = 0; i < n_checks; i++) {
		wait_for_operations(BETWEEN);
		sets += run_check(pool, i % 2).sets;
		if ((i + 1) % 100 == 0)
			print_message("%u checks, %u operations\n", i + 1, atomic_load(operations));
		if (i % KILL_EVERY == 0) {
			unsigned which = i / KILL_EVERY % STORMERS;

			stop_stormer(stormers[which]);
			stormers[which] = start_stormer(1000 + i);
		}
	}
	for (unsigned i = 0; i < STORMERS; i++)
		stop_stormer(stormers[i]);
	pool_close(pool);
	pool = open_pool();
	run_check(pool, false);
	run_check(pool, true);
	pool_close(pool);
	assert_int_equal(faults, 0);
	assert_true(sets > n_checks); /* there was something to check */
	print_message("%u operations, %u checks of %llu change sets\n", atomic_load(operations),
		      n_checks, (unsigned long long)sets);
}

static int make_pool(void **state)
{
	struct pool_create_spec spec = {
		.dir = dir, .backend = POOL_BACKEND_COPY, .retention_ms = 1};
	struct pool_create_result result;

	(void)state;
	operations = mmap(NULL, sizeof(*operations), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (operations == MAP_FAILED)
		return -1;
	snprintf(dir, sizeof(dir), "%s/cairn-unit-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	return mkdtemp(dir) && pool_create(&spec, &result, NULL) == 0 ? 0 : -1;
}

static int destroy_pool(void **state)
{
	int rc = pool_destroy(dir, NULL);

	(void)state;
	rmdir(dir);
	return rc;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_check_finds_nothing_beside_a_storm, make_pool,
						destroy_pool),
	};

	if (argc > 1 && strcmp(argv[1], "--long") == 0)
		n_checks = CHECKS_LONG;
	return cmocka_run_group_tests_name("pool/check-storm", tests, NULL, NULL);
}
