/* SPDX-License-Identifier: Apache-2.0 */

/* Calls a CSI driver and says how long it took, for benchmarks:
 *   bench-csi SOCKET PID volume NAME SIZE            prints the id
 *   bench-csi SOCKET PID snapshot VOLUME NAME        a line of times, the id
 *   bench-csi SOCKET PID delete-snapshot ID
 *   bench-csi SOCKET PID stream BASE|- TARGET RUNS   a line for each run
 *   bench-csi SOCKET PID stall VOLUME NAME DEVICE    see below
 * PID is the driver's; times are microseconds: wall, and the processor time of
 * that process. A stream's line goes on with the time to its first message,
 * tuples and bytes.
 *
 * `stall` writes 4 KiB blocks to the device, each one direct and synced, while
 * the snapshot is made. It prints the longest write of the time before, the
 * longest that touched the call, how many did, the call's wall time and the id. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "csi_client.h"
#include "net/grpc/grpc_client.h"

#define CALL_MS  600000
#define BLOCK    4096U
#define QUIET_MS 2000
#define AFTER_MS 1000

struct bench {
	struct csi_client client;
	clockid_t cpu;
	char **args;
	int n_args;
};

static uint64_t cpu_ns(const struct bench *b)
{
	struct timespec t = {0};

	clock_gettime(b->cpu, &t);
	return (uint64_t)t.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static int make_volume(struct bench *b, struct cairn_err *err)
{
	char id[CSI_CLIENT_ID_SIZE];
	uint64_t size;
	int rc = cairn_parse_size(b->args[1], &size, err);

	if (!rc)
		rc = csi_client_create_volume(&b->client, b->args[0], size, id, err);
	if (!rc)
		printf("%s\n", id);
	return rc;
}

static int make_snapshot(struct bench *b, struct cairn_err *err)
{
	uint64_t cpu = cpu_ns(b), start = cairn_monotonic_ns();
	char id[CSI_CLIENT_ID_SIZE];
	int rc = csi_client_create_snapshot(&b->client, b->args[0], b->args[1], id, err);

	if (!rc)
		printf("%" PRIu64 " %" PRIu64 " %s\n", (cairn_monotonic_ns() - start) / 1000,
		       (cpu_ns(b) - cpu) / 1000, id);
	return rc;
}

static int delete_snapshot(struct bench *b, struct cairn_err *err)
{
	return csi_client_delete_snapshot(&b->client, b->args[0], err);
}

static int run_stream(struct bench *b, struct cairn_err *err)
{
	const char *base = strcmp(b->args[0], "-") == 0 ? NULL : b->args[0];
	uint64_t runs;
	int rc = cairn_parse_u64(b->args[2], &runs, err);

	/* The connection is there before the first run. */
	if (!rc)
		rc = net_channel_connect(b->client.channel, CALL_MS, err);
	for (uint64_t i = 0; i < runs && !rc; i++) {
		uint64_t cpu = cpu_ns(b);
		struct csi_stream s;

		rc = csi_client_stream(&b->client, base, b->args[1], NULL, &s, err);
		if (!rc)
			printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			       s.wall_ns / 1000, (cpu_ns(b) - cpu) / 1000, s.first_ns / 1000,
			       s.tuples, s.bytes);
	}
	return rc;
}

/* --- the writer --- */

struct writer {
	int fd;
	uint64_t blocks;
	_Atomic uint64_t begin, end; /* of the call; 0: not yet */
	atomic_bool stop;
	uint64_t quiet_ns, during_ns, during_n, writes;
	int failed; /* errno */
};

/* A write belongs to the call if it was under way at any moment of it. */
static void note_write(struct writer *w, uint64_t from, uint64_t to)
{
	uint64_t begin = w->begin, end = w->end, took = to - from;

	w->writes++;
	if (begin == 0 || to < begin) {
		w->quiet_ns = took > w->quiet_ns ? took : w->quiet_ns;
	} else if (end == 0 || from <= end) {
		w->during_n++;
		w->during_ns = took > w->during_ns ? took : w->during_ns;
	}
}

static void *write_on(void *arg)
{
	struct writer *w = arg;
	cairn_auto_free void *block = NULL;
	unsigned seed = 1;

	if (posix_memalign(&block, BLOCK, BLOCK) != 0) {
		w->failed = ENOMEM;
		return NULL;
	}
	memset(block, 0x5a, BLOCK);
	while (!w->stop && !w->failed) {
		uint64_t at = (uint64_t)rand_r(&seed) * RAND_MAX + (uint64_t)rand_r(&seed);
		uint64_t from = cairn_monotonic_ns();

		memcpy(block, &w->writes, sizeof(w->writes));
		if (pwrite(w->fd, block, BLOCK, (off_t)(at % w->blocks * BLOCK)) != BLOCK ||
		    fdatasync(w->fd) < 0)
			w->failed = errno;
		note_write(w, from, cairn_monotonic_ns());
	}
	return NULL;
}

static int with_writer(struct bench *b, struct writer *w, struct cairn_err *err)
{
	char id[CSI_CLIENT_ID_SIZE];
	pthread_t thread;
	int rc = pthread_create(&thread, NULL, write_on, w);

	if (rc)
		return cairn_err_sys(err, rc, "thread");
	cairn_sleep_ms(QUIET_MS);
	w->begin = cairn_monotonic_ns();
	rc = csi_client_create_snapshot(&b->client, b->args[0], b->args[1], id, err);
	w->end = cairn_monotonic_ns();
	cairn_sleep_ms(AFTER_MS);
	w->stop = true;
	pthread_join(thread, NULL);
	if (!rc && w->failed)
		rc = cairn_err_sys(err, w->failed, "write to '%s'", b->args[2]);
	if (!rc)
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", w->quiet_ns / 1000,
		       w->during_ns / 1000, w->during_n, (w->end - w->begin) / 1000, id);
	return rc;
}

static int stall(struct bench *b, struct cairn_err *err)
{
	struct writer w = {.fd = -1};
	cairn_auto_fd int fd = open(b->args[2], O_RDWR | O_DIRECT | O_CLOEXEC);
	uint64_t size;
	int rc;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0)
		return cairn_err_sys(err, errno, "device '%s'", b->args[2]);
	w.fd = fd;
	w.blocks = size / BLOCK;
	rc = net_channel_connect(b->client.channel, CALL_MS, err);
	return rc ? rc : with_writer(b, &w, err);
}

static int run(struct bench *b, const char *pid, const char *command, struct cairn_err *err)
{
	static const struct {
		const char *name;
		int n_args;
		int (*run)(struct bench *b, struct cairn_err *err);
	} commands[] = {
		{"volume", 2, make_volume},
		{"snapshot", 2, make_snapshot},
		{"delete-snapshot", 1, delete_snapshot},
		{"stream", 3, run_stream},
		{"stall", 3, stall},
	};
	uint64_t number;
	int rc = cairn_parse_u64(pid, &number, err);

	if (!rc && clock_getcpuclockid((pid_t)number, &b->cpu) != 0)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "there is no process %s", pid);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]) && !rc; i++)
		if (strcmp(commands[i].name, command) == 0 && commands[i].n_args == b->n_args)
			return commands[i].run(b, err);
	return rc ? rc : cairn_err_set(err, CAIRN_INVALID, "see the head of csi.c");
}

int main(int argc, char **argv)
{
	struct bench b = {.args = argv + 4, .n_args = argc - 4};
	struct cairn_err err = {0};
	int rc = argc < 4 ? cairn_err_set(&err, CAIRN_INVALID, "usage: SOCKET PID COMMAND ARG...")
			  : csi_client_init(&b.client, argv[1], CALL_MS, &err);

	if (!rc)
		rc = run(&b, argv[2], argv[3], &err);
	net_channel_free(b.client.channel);
	if (rc)
		fprintf(stderr, "bench-csi: %s\n", err.msg);
	return rc != 0;
}
