/* SPDX-License-Identifier: Apache-2.0 */

/* Load on a CSI driver: many clients that create, write, snapshot, stream and
 * delete at once, while the driver is perhaps killed and started again.
 *
 *   soak-csi --clients N --seconds N [--kill-every SECONDS] [--growth-max-kib N]
 *            [--call-seconds N] --socket PATH --volumes DIR -- DRIVER COMMAND …
 *
 * The driver is started by this program. DIR is where it keeps volumes as
 * DIR/<id>/disk; writing goes there, so no root is needed. Each client keeps
 * its own truth: what was acknowledged must be there, also after a kill, every
 * delta must cover what was written, and a call that met a killed driver must
 * succeed when it is repeated. Any code but ABORTED (and UNAVAILABLE around a
 * kill) is a failure, and so are more than 0.1 % ABORTED without kills and memory
 * that grows by more than was allowed.
 * Prints latencies and ends with 0 or 1.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "block/extent.h"
#include "csi_client.h"
#include "net/grpc/grpc_client.h"
#include "net/signals.h"

#define VOLUME_SIZE (16ULL << 20)
#define BLOCK       4096ULL
#define BLOCKS      (VOLUME_SIZE / BLOCK)
#define RETRY_MAX   2000
#define CLIENTS_MAX 1024
#define SAMPLES_MAX 200000
/* Of a driver without a call: its loops and listeners, and three for each connection to
 * the catalogue that is kept open. Under load it has as many more as calls are open, and
 * SQLite keeps some of those for the next connections. */
#define REST_FDS_MAX     (128 + n_clients / 8)
#define REST_SECONDS     3  /* after one, the driver gives memory back */
#define REST_SECONDS_MAX 60 /* for change sets that are still being made, on a busy machine */

static const char *socket_path, *volumes_dir;
static uint64_t n_clients = 64, seconds = 20, kill_every, growth_max_kib, call_seconds = 30;
static char **driver_argv;
static atomic_int driver_pid;
static atomic_bool stop, failed;
static struct csi_client client;
static atomic_uint_fast64_t calls, aborted, unavailable, streams, cycles;

struct samples {
	pthread_mutex_t mutex;
	size_t n;
	uint32_t us[SAMPLES_MAX];
};

static struct samples snapshot_us = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct samples first_byte_us = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((format(printf, 1, 2))) static void fault(const char *fmt, ...)
{
	va_list args;

	failed = true;
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static void sample(struct samples *samples, uint64_t ns)
{
	uint64_t us = ns / 1000;

	pthread_mutex_lock(&samples->mutex);
	if (samples->n < SAMPLES_MAX)
		samples->us[samples->n++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
	pthread_mutex_unlock(&samples->mutex);
}

/* One call and its repetitions. */
struct attempt {
	const char *what;
	int tries;
	struct cairn_err err;
};

static bool may_retry(struct attempt *a, int rc)
{
	if (rc == CAIRN_ABORTED)
		aborted++;
	else if (rc == CAIRN_UNAVAILABLE && kill_every)
		unavailable++;
	else
		return false;
	return ++a->tries < RETRY_MAX;
}

/* True when the call is to be made again; a failure that may not be is a fault. */
static bool again(struct attempt *a, int rc)
{
	calls++;
	if (rc == 0)
		return false;
	if (!may_retry(a, rc)) {
		fault("%s: %s: %s", a->what, cairn_code_name(rc), a->err.msg);
		return false;
	}
	cairn_sleep_ms(1 + (uint64_t)rand() % 20);
	return true;
}

static bool create_volume(const char *name, char id[CSI_CLIENT_ID_SIZE])
{
	struct attempt a = {.what = "CreateVolume"};
	int rc;

	do {
		rc = csi_client_create_volume(&client, name, VOLUME_SIZE, id, &a.err);
	} while (again(&a, rc));
	return rc == 0;
}

static bool create_snapshot(const char *volume_id, const char *name, char id[CSI_CLIENT_ID_SIZE])
{
	struct attempt a = {.what = "CreateSnapshot"};
	uint64_t start = cairn_monotonic_ns();
	int rc;

	do {
		rc = csi_client_create_snapshot(&client, volume_id, name, id, &a.err);
	} while (again(&a, rc));
	if (rc == 0)
		sample(&snapshot_us, cairn_monotonic_ns() - start);
	return rc == 0;
}

static bool delete_object(int (*delete)(const struct csi_client *client, const char *id,
					struct cairn_err *err),
			  const char *what, const char *id)
{
	struct attempt a = {.what = what};
	int rc;

	do {
		rc = delete (&client, id, &a.err);
	} while (again(&a, rc));
	return rc == 0;
}

static int mark(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	bool *seen = arg;

	(void)err;
	for (uint64_t b = extent->offset / BLOCK; b * BLOCK < block_extent_end(extent); b++)
		if (b < BLOCKS)
			seen[b] = true;
	return 0;
}

static bool check_delta(const char *base, const char *target, const bool written[BLOCKS])
{
	struct attempt a = {.what = "GetMetadataDelta"};
	struct csi_stream stream;
	bool seen[BLOCKS];
	struct block_sink sink = {.emit = mark, .arg = seen};
	int rc;

	do {
		memset(seen, 0, sizeof(seen));
		rc = csi_client_stream(&client, base, target, &sink, &stream, &a.err);
		streams++;
		if (stream.first_ns)
			sample(&first_byte_us, stream.first_ns);
	} while (again(&a, rc));
	if (rc)
		return false;
	if (stream.capacity != VOLUME_SIZE)
		fault("delta %s %s: capacity %" PRIu64, base, target, stream.capacity);
	for (size_t i = 0; i < BLOCKS; i++)
		if (written[i] && !seen[i]) {
			fault("delta %s %s: block %zu was missed", base, target, i);
			return false;
		}
	return true;
}

static bool write_blocks(const char *volume_id, bool written[BLOCKS], unsigned *seed)
{
	char path[4096], data[BLOCK];
	int fd;

	memset(written, 0, BLOCKS);
	snprintf(path, sizeof(path), "%s/%s/disk", volumes_dir, volume_id);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		fault("%s: %s", path, strerrorname_np(errno));
		return false;
	}
	for (int i = 0; i < 20; i++) {
		uint64_t block = (uint64_t)rand_r(seed) % BLOCKS;

		for (size_t j = 0; j < sizeof(data); j += sizeof(int))
			memcpy(data + j, &(int){rand_r(seed)}, sizeof(int));
		if (pwrite(fd, data, sizeof(data), (off_t)(block * BLOCK)) != sizeof(data))
			fault("write: %s", strerrorname_np(errno));
		written[block] = true;
	}
	close(fd);
	return true;
}

static bool cycle(unsigned who, unsigned round, unsigned *seed)
{
	char name[64], volume[CSI_CLIENT_ID_SIZE];
	char s1[CSI_CLIENT_ID_SIZE], s2[CSI_CLIENT_ID_SIZE];
	bool written[BLOCKS];

	snprintf(name, sizeof(name), "c%u-%u", who, round);
	if (!create_volume(name, volume) || !write_blocks(volume, written, seed))
		return false;
	snprintf(name, sizeof(name), "c%u-%u-a", who, round);
	if (!create_snapshot(volume, name, s1) || !write_blocks(volume, written, seed))
		return false;
	snprintf(name, sizeof(name), "c%u-%u-b", who, round);
	if (!create_snapshot(volume, name, s2) || !check_delta(s1, s2, written))
		return false;
	if (!delete_object(csi_client_delete_snapshot, "DeleteSnapshot", s1) ||
	    !check_delta(s1, s2, written))
		return false;
	cycles++;
	return delete_object(csi_client_delete_snapshot, "DeleteSnapshot", s2) &&
	       delete_object(csi_client_delete_volume, "DeleteVolume", volume);
}

static void *client_main(void *arg)
{
	unsigned who = (unsigned)(uintptr_t)arg, seed = who + 1;

	for (unsigned round = 0; !stop && !failed; round++)
		if (!cycle(who, round, &seed))
			break;
	return NULL;
}

static void start_driver(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execvp(driver_argv[0], driver_argv);
		_exit(127);
	}
	driver_pid = pid;
}

static void end_driver(int signal)
{
	int status = 0;

	kill(driver_pid, signal);
	waitpid(driver_pid, &status, 0);
	if (signal == SIGTERM && status != 0)
		fault("the driver ended with status 0x%x", status);
}

/* What the driver holds at a moment. */
struct held {
	uint64_t rss_kib, threads, fds;
};

static uint64_t number_in(const char *line)
{
	char digits[24] = "";
	uint64_t value = 0;

	line += strcspn(line, "0123456789");
	memcpy(digits, line, strnlen(line, sizeof(digits) - 1));
	digits[strspn(digits, "0123456789")] = '\0';
	(void)cairn_parse_u64(digits, &value, NULL);
	return value;
}

static struct held look_at_driver(void)
{
	struct held held = {0};
	char path[64], line[256];
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/status", driver_pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "VmRSS:", 6) == 0)
			held.rss_kib = number_in(line);
		if (strncmp(line, "Threads:", 8) == 0)
			held.threads = number_in(line);
	}
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/fd", driver_pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		held.fds++;
	if (dir)
		closedir(dir);
	return held;
}

/* The largest of each, over a quarter of the run. */
static void keep_most(struct held *most, struct held now)
{
	most->rss_kib = now.rss_kib > most->rss_kib ? now.rss_kib : most->rss_kib;
	most->threads = now.threads > most->threads ? now.threads : most->threads;
	most->fds = now.fds > most->fds ? now.fds : most->fds;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what, struct samples *samples)
{
	size_t middle = samples->n / 2, late = samples->n * 99 / 100;

	if (samples->n == 0)
		return;
	qsort(samples->us, samples->n, sizeof(samples->us[0]), by_value);
	printf("%-24s n %6zu  p50 %8.2f ms  p99 %8.2f ms  max %8.2f ms\n", what, samples->n,
	       samples->us[middle] / 1e3, samples->us[late] / 1e3,
	       samples->us[samples->n - 1] / 1e3);
}

/* Nothing that a client deleted may be left. */
static void check_empty(void)
{
	struct attempt a = {.what = "List"};
	size_t volumes = 0, snapshots = 0;
	int rc;

	do {
		rc = csi_client_count(&client, &volumes, &snapshots, &a.err);
	} while (again(&a, rc));
	if (volumes || snapshots)
		fault("%zu volumes and %zu snapshots are left", volumes, snapshots);
}

/* Memory of the second quarter and of the last: what grows between them leaks. A
 * driver that was killed meanwhile began anew. */
static void judge_growth(const struct held quarters[4])
{
	for (int i = 0; i < 4; i++)
		printf("quarter %d: at most RSS %" PRIu64 " KiB, %" PRIu64 " descriptors, %" PRIu64
		       " threads\n",
		       i + 1, quarters[i].rss_kib, quarters[i].fds, quarters[i].threads);
	if (growth_max_kib == 0 || kill_every)
		return;
	if (quarters[3].rss_kib > quarters[1].rss_kib + growth_max_kib)
		fault("the driver's memory grows");
}

/* No two clients share a volume, and none calls twice at once. What is left is the driver's
 * own work on a volume, which a call waits for as long as the driver is not slow. */
static void judge_aborted(void)
{
	if (!kill_every && aborted > calls / 1000)
		fault("%" PRIu64 " of %" PRIu64 " calls were ABORTED", (uint64_t)aborted,
		      (uint64_t)calls);
}

static struct held look_at_rest(void)
{
	struct held held;

	for (unsigned i = REST_SECONDS;; i++) {
		sleep(i == REST_SECONDS ? REST_SECONDS : 1);
		held = look_at_driver();
		if (held.fds <= REST_FDS_MAX || i >= REST_SECONDS_MAX)
			return held;
	}
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];

		if (strcmp(argv[i], "--") == 0) {
			driver_argv = argv + i + 1;
			break;
		}
		if (strcmp(argv[i], "--clients") == 0)
			(void)cairn_parse_u64(value, &n_clients, NULL);
		else if (strcmp(argv[i], "--seconds") == 0)
			(void)cairn_parse_u64(value, &seconds, NULL);
		else if (strcmp(argv[i], "--kill-every") == 0)
			(void)cairn_parse_u64(value, &kill_every, NULL);
		else if (strcmp(argv[i], "--growth-max-kib") == 0)
			(void)cairn_parse_u64(value, &growth_max_kib, NULL);
		else if (strcmp(argv[i], "--call-seconds") == 0)
			(void)cairn_parse_u64(value, &call_seconds, NULL);
		else if (strcmp(argv[i], "--socket") == 0)
			socket_path = value;
		else if (strcmp(argv[i], "--volumes") == 0)
			volumes_dir = value;
	}
	if (!driver_argv || !socket_path || !volumes_dir || n_clients > CLIENTS_MAX) {
		fprintf(stderr, "see the head of soak_csi.c for how to call this\n");
		exit(2);
	}
}

static void run_load(void)
{
	struct held quarters[4] = {{0}};
	pthread_t threads[CLIENTS_MAX];
	uint64_t kills = 0;

	for (uint64_t i = 0; i < n_clients; i++)
		pthread_create(&threads[i], NULL, client_main, (void *)(uintptr_t)i);
	for (uint64_t second = 1; second <= seconds && !failed; second++) {
		cairn_sleep_ms(1000);
		keep_most(&quarters[(second - 1) * 4 / seconds], look_at_driver());
		if (kill_every && second % kill_every == 0 && second < seconds) {
			end_driver(SIGKILL);
			start_driver();
			kills++;
		}
	}
	stop = true;
	for (uint64_t i = 0; i < n_clients; i++)
		pthread_join(threads[i], NULL);
	printf("%" PRIu64 " clients, %" PRIu64 " s, %" PRIu64 " kills\n", n_clients, seconds,
	       kills);
	judge_growth(quarters);
	judge_aborted();
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};
	struct held held;
	sigset_t signals;

	parse(argc, argv);
	net_signals_block(&signals);
	start_driver();
	if (csi_client_init(&client, socket_path, call_seconds * 1000, &err) != 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	run_load();
	check_empty();
	held = look_at_rest();
	if (held.fds > REST_FDS_MAX)
		fault("the driver keeps %" PRIu64 " descriptors", held.fds);
	printf("calls %" PRIu64 ", cycles %" PRIu64 ", streams %" PRIu64 ", aborted %" PRIu64
	       ", unavailable %" PRIu64 "; at rest RSS %" PRIu64 " KiB, %" PRIu64 " descriptors\n",
	       (uint64_t)calls, (uint64_t)cycles, (uint64_t)streams, (uint64_t)aborted,
	       (uint64_t)unavailable, held.rss_kib, held.fds);
	report("CreateSnapshot", &snapshot_us);
	report("first message of Delta", &first_byte_us);
	net_channel_free(client.channel);
	end_driver(SIGTERM);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
