/* SPDX-License-Identifier: Apache-2.0 */

/* storm [--backend copy|btrfs|reflink|auto] [--seconds N] [--processes N] [--threads N]
 *       [--seed N] [--kills N] [--attach] [--checks] [--keep] [DIR]
 *
 * DIR is made anew; a scratch directory without it. It may be the address of a pool on Ceph.
 * Exits 77 where the back end cannot work. */

#include "storm.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"

#define PROCESSES_MAX 32
#define THREADS_MAX   64
#define LOCK_WAIT_MS  2000
#define SKIP          77

struct options {
	enum pool_backend backend;
	uint64_t seconds, processes, threads, seed, kills;
	bool attach, checks, keep;
	const char *dir;
};

/* ---- a worker ------------------------------------------------------------ */

static void *run_thread(void *arg)
{
	struct storm_thread *thread = arg;

	while (!atomic_load(&thread->storm->shared->stop))
		storm_step(thread);
	return NULL;
}

static _Noreturn void run_worker(struct storm *storm, unsigned process, uint64_t seed)
{
	struct pool_open_spec spec = {.dir = storm->dir, .lock_wait_ms = LOCK_WAIT_MS};
	struct storm_thread threads[THREADS_MAX];
	pthread_t ids[THREADS_MAX];
	struct pool *pool = NULL;
	struct cairn_err err = {0};

	if (pool_open(&spec, &pool, &err) != 0)
		storm_fail("open: %s", err.msg);
	for (unsigned i = 0; i < storm->threads; i++) {
		unsigned index = process * storm->threads + i;

		threads[i] =
			(struct storm_thread){.storm = storm,
					      .pool = pool,
					      .index = index,
					      .random = (seed + index + 1) * 0x9e3779b97f4a7c15ULL};
		if (pthread_create(&ids[i], NULL, run_thread, &threads[i]) != 0)
			storm_fail("cannot start a thread");
	}
	for (unsigned i = 0; i < storm->threads; i++)
		pthread_join(ids[i], NULL);
	pool_close(pool);
	exit(0);
}

/* ---- those who make the weather ------------------------------------------ */

struct weather {
	struct storm *storm;
	const struct options *options;
	pid_t pids[PROCESSES_MAX];
	uint64_t started;
};

static void start_worker(struct weather *weather, unsigned i)
{
	uint64_t seed = weather->options->seed * 1000003 + weather->started++ * 7919;
	pid_t pid = fork();

	if (pid < 0)
		storm_fail("cannot start a process");
	if (pid == 0)
		run_worker(weather->storm, i, seed);
	weather->pids[i] = pid;
}

static void end_all(struct weather *weather)
{
	for (unsigned i = 0; i < weather->options->processes; i++)
		if (weather->pids[i] > 0) {
			kill(weather->pids[i], SIGKILL);
			waitpid(weather->pids[i], NULL, 0);
		}
}

/* Fails the run when a worker failed by itself. */
static void check_worker(struct weather *weather, unsigned i, int status)
{
	weather->pids[i] = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	end_all(weather);
	storm_fail("a worker ended with status 0x%x", (unsigned)status);
}

static void kill_one(struct weather *weather, unsigned i)
{
	int status;

	kill(weather->pids[i], SIGKILL);
	if (waitpid(weather->pids[i], &status, 0) != weather->pids[i])
		storm_fail("a worker got lost");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		weather->pids[i] = 0;
	else
		check_worker(weather, i, status);
	start_worker(weather, i);
}

static void blow(struct weather *weather)
{
	const struct options *options = weather->options;
	uint64_t steps = options->seconds * 50;
	uint64_t random = options->seed * 2862933555777941757ULL + 3037000493ULL;

	for (unsigned i = 0; i < options->processes; i++)
		start_worker(weather, i);
	for (uint64_t step = 0; step < steps; step++) {
		cairn_sleep_ms(20);
		for (unsigned i = 0; i < options->processes; i++) {
			int status;

			if (waitpid(weather->pids[i], &status, WNOHANG) == weather->pids[i])
				check_worker(weather, i, status ? status : 0xff00);
		}
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		if ((random >> 33) % steps < options->kills)
			kill_one(weather, (unsigned)((random >> 20) % options->processes));
	}
	atomic_store(&weather->storm->shared->stop, true);
	for (unsigned i = 0; i < options->processes; i++) {
		int status;

		if (waitpid(weather->pids[i], &status, 0) == weather->pids[i])
			check_worker(weather, i, status);
	}
}

/* ---- the ground ---------------------------------------------------------- */

static uint64_t n_files;

static int count_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	static const char *const places[] = {"/volumes/", "/snapshots/", "/sets/"};

	(void)st;
	(void)ftw;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (strstr(path, places[i])) {
			fprintf(stderr, "storm: left: %s\n", path);
			n_files += kind == FTW_F || kind == FTW_D;
		}
	return 0;
}

/* What volumes, snapshots and sets have left in an empty pool. */
static void expect_no_files(const char *dir)
{
	if (nftw(dir, count_file, 16, FTW_PHYS) != 0)
		storm_fail("cannot look through '%s'", dir);
	if (n_files)
		storm_fail("%llu files in the empty pool", (unsigned long long)n_files);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void prepare_truth(struct storm *storm, const struct options *options)
{
	char path[160];
	const char *parent = getenv("TMPDIR");
	int rc;

	if (storm->on_ceph)
		rc = snprintf(storm->truth, sizeof(storm->truth), "%s/cairn-storm-truth-%d",
			      parent ? parent : "/tmp", (int)getpid());
	else
		rc = snprintf(storm->truth, sizeof(storm->truth), "%s.truth", options->dir);
	if (rc < 0 || (size_t)rc >= sizeof(storm->truth) || mkdir(storm->truth, 0700) < 0)
		storm_fail("cannot make '%s'", storm->truth);
	snprintf(path, sizeof(path), "%s/sums", storm->truth);
	if (mkdir(path, 0700) < 0)
		storm_fail("cannot make '%s'", path);
	storm->sums = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/acks", storm->truth);
	storm->acks = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	storm->shared = mmap(NULL, sizeof(*storm->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (storm->sums < 0 || storm->acks < 0 || storm->shared == MAP_FAILED)
		storm_fail("cannot keep the truth");
}

/* In a process of its own: the libraries of Ceph do not survive a fork(), and workers are
 * forked later. */
static int create_apart(const struct pool_create_spec *spec, struct cairn_err *err)
{
	struct pool_create_result made;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int rc = pool_create(spec, &made, err);

		if (rc)
			fprintf(stderr, "storm: %s\n", err->msg);
		_exit(-rc);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		storm_fail("cannot start a process");
	return WEXITSTATUS(status) ? cairn_err_set(err, -WEXITSTATUS(status), "see above") : 0;
}

static int storm_run(const struct options *options)
{
	bool on_ceph = strncmp(options->dir, "rbd:", 4) == 0;
	struct pool_create_spec create = {.dir = options->dir,
					  .backend = on_ceph ? POOL_BACKEND_AUTO : options->backend,
					  .retention_ms = 50};
	struct storm storm = {.dir = options->dir,
			      .on_ceph = on_ceph,
			      .threads = (unsigned)options->threads,
			      .workers = (unsigned)(options->threads * options->processes),
			      .attach = options->attach,
			      .checks = options->checks};
	struct weather weather = {.storm = &storm, .options = options};
	struct cairn_err err = {0};
	int rc = create_apart(&create, &err);

	if (rc == CAIRN_PRECONDITION || rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_DENIED) {
		fprintf(stderr, "storm: %s\n", err.msg);
		return SKIP;
	}
	if (rc)
		storm_fail("create: %s", err.msg);
	prepare_truth(&storm, options);
	blow(&weather);
	storm_settle(&storm);
	if (!storm.on_ceph)
		expect_no_files(options->dir);
	printf("%llu operations, %llu snapshots, %llu deltas compared, %llu refused, %llu kills\n",
	       (unsigned long long)storm.shared->operations,
	       (unsigned long long)storm.shared->snapshots,
	       (unsigned long long)storm.shared->deltas, (unsigned long long)storm.shared->refused,
	       (unsigned long long)(weather.started - options->processes));
	if (options->keep)
		return 0;
	if (pool_destroy(options->dir, &err) != 0)
		storm_fail("destroy: %s", err.msg);
	(void)nftw(storm.truth, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* ---- the command line ---------------------------------------------------- */

static bool parse_backend(const char *text, enum pool_backend *ret)
{
	static const char *const names[] = {
		[POOL_BACKEND_AUTO] = "auto",
		[POOL_BACKEND_BTRFS] = "btrfs",
		[POOL_BACKEND_REFLINK] = "reflink",
		[POOL_BACKEND_COPY] = "copy",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum pool_backend)i;
			return true;
		}
	return false;
}

static bool parse_number(struct options *options, const char *flag, const char *text)
{
	uint64_t *const places[] = {&options->seconds, &options->processes, &options->threads,
				    &options->seed, &options->kills};
	static const char *const flags[] = {"--seconds", "--processes", "--threads", "--seed",
					    "--kills"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(flag, flags[i]) == 0)
			return cairn_parse_u64(text, places[i], NULL) == 0;
	return false;
}

static bool parse(int argc, char **argv, struct options *ret)
{
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (strcmp(argv[i], "--attach") == 0)
			ret->attach = true;
		else if (strcmp(argv[i], "--checks") == 0)
			ret->checks = true;
		else if (strcmp(argv[i], "--keep") == 0)
			ret->keep = true;
		else if (strcmp(argv[i], "--backend") == 0 && more &&
			 parse_backend(argv[i + 1], &ret->backend))
			i++;
		else if (argv[i][0] == '-' && more && parse_number(ret, argv[i], argv[i + 1]))
			i++;
		else if (argv[i][0] != '-' && !ret->dir)
			ret->dir = argv[i];
		else
			return false;
	}
	return ret->seconds && ret->threads && ret->threads <= THREADS_MAX && ret->processes &&
	       ret->processes <= PROCESSES_MAX;
}

int main(int argc, char **argv)
{
	struct options options = {.backend = POOL_BACKEND_COPY,
				  .seconds = 10,
				  .processes = 3,
				  .threads = 4,
				  .seed = 1,
				  .kills = 10};
	const char *parent = getenv("TMPDIR");
	char scratch[256];
	int rc;

	if (!parse(argc, argv, &options)) {
		fputs("usage: storm [--backend NAME] [--seconds N] [--processes N] [--threads N] "
		      "[--seed N] [--kills N] [--attach] [--checks] [--keep] [DIR]\n",
		      stderr);
		return 2;
	}
	snprintf(scratch, sizeof(scratch), "%s/cairn-storm-XXXXXX", parent ? parent : "/tmp");
	if (!options.dir && !(options.dir = mkdtemp(scratch)))
		storm_fail("cannot make a scratch directory");
	fprintf(stderr, "storm: in %s\n", options.dir);
	rc = storm_run(&options);
	if (options.dir == scratch && !options.keep)
		(void)rmdir(scratch);
	return rc;
}
