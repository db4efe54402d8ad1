/* SPDX-License-Identifier: Apache-2.0 */

/* A line with a delay and a rate between a server and its clients, for kernels without
 * netem. Two network namespaces have a tun device each; packets that go in at one end come
 * out at the other, one after the other at the line's rate, and later by the delay. What
 * does not fit into the queue of a quarter of a second is dropped, as a router does.
 *   delayline DELAY-MS BYTES-A-SECOND LOG SERVER ARG... -- CLIENT ARG...
 * The server is started at 10.99.0.2, the client at 10.99.0.1; the exit status is the
 * client's, and the server is killed after it. LOG gets a line for each tenth of a second:
 * the time in ms, bytes to the server, bytes from it. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "base/process.h"

#define MTU      1500
#define QUEUE_MS 250
#define SKIP     77
#define LOG_NS   ((uint64_t)100 * CAIRN_NS_PER_MS)

struct packet {
	uint64_t due_ns;
	uint16_t n;
	uint8_t bytes[MTU];
};

/* One direction. */
struct way {
	int from, to;
	struct packet *ring;
	size_t cap, first, n;
	uint64_t free_ns; /* when the line has sent all that is queued */
	uint64_t bytes;   /* that came out since the last line of the log */
};

struct line {
	struct way to_server, from_server;
	uint64_t delay_ns, rate;
	FILE *log;
	uint64_t begun_ns, logged_ns;
};

static void fail(const char *what)
{
	fprintf(stderr, "delayline: %s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

/* In a network namespace of its own from here on, with a tun device up. */
static int enter(const char *address)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	const char *const lo[] = {"ip", "link", "set", "lo", "up", NULL};
	const char *const add[] = {"ip", "address", "add", address, "dev", "line", NULL};
	const char *const up[] = {"ip", "link", "set", "line", "up", "txqueuelen", "5000", NULL};
	int fd = -1;

	/* A tun device is made in the namespace in which it was opened. */
	if (unshare(CLONE_NEWNET) == 0)
		fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		fprintf(stderr, "delayline: no tun device or network namespace here\n");
		exit(SKIP);
	}
	snprintf(request.ifr_name, sizeof(request.ifr_name), "line");
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		fail("make a tun device");
	if (cairn_run(lo, NULL) < 0 || cairn_run(add, NULL) < 0 || cairn_run(up, NULL) < 0)
		fail("set the tun device up");
	return fd;
}

static pid_t spawn(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], argv);
	fail(argv[0]);
	return -1;
}

static void way_init(struct way *way, int from, int to, uint64_t rate, uint64_t delay_ns)
{
	uint64_t bytes = rate * QUEUE_MS / 1000 + rate * (delay_ns / 1000) / 1000000;

	*way = (struct way){.from = from, .to = to, .cap = bytes / 256 + 64};
	way->ring = calloc(way->cap, sizeof(*way->ring));
	if (!way->ring)
		fail("memory");
}

/* Takes what came in; what the queue has no room for is lost. */
static void take(struct line *line, struct way *way, uint64_t now)
{
	uint64_t queue_ns = (uint64_t)QUEUE_MS * CAIRN_NS_PER_MS;

	while (true) {
		struct packet *packet = &way->ring[(way->first + way->n) % way->cap];
		static uint8_t lost[MTU];
		bool full = way->n == way->cap || way->free_ns > now + queue_ns;
		ssize_t n = read(way->from, full ? lost : packet->bytes, MTU);

		if (n <= 0)
			return;
		if (full)
			continue;
		way->free_ns = (way->free_ns > now ? way->free_ns : now) +
			       (uint64_t)n * CAIRN_NS_PER_SEC / line->rate;
		packet->n = (uint16_t)n;
		packet->due_ns = way->free_ns + line->delay_ns;
		way->n++;
	}
}

/* Gives out what is due; returns when the next one is. */
static uint64_t give(struct way *way, uint64_t now)
{
	while (way->n > 0 && way->ring[way->first].due_ns <= now) {
		const struct packet *packet = &way->ring[way->first];

		if (write(way->to, packet->bytes, packet->n) == packet->n)
			way->bytes += packet->n;
		way->first = (way->first + 1) % way->cap;
		way->n--;
	}
	return way->n > 0 ? way->ring[way->first].due_ns : UINT64_MAX;
}

static void write_log(struct line *line, uint64_t now)
{
	if (now - line->logged_ns < LOG_NS)
		return;
	fprintf(line->log, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		(uint64_t)((now - line->begun_ns) / CAIRN_NS_PER_MS), line->to_server.bytes,
		line->from_server.bytes);
	line->to_server.bytes = line->from_server.bytes = 0;
	line->logged_ns = now;
}

static void step(struct line *line)
{
	struct pollfd fds[2] = {{.fd = line->to_server.from, .events = POLLIN},
				{.fd = line->from_server.from, .events = POLLIN}};
	uint64_t now = cairn_monotonic_ns(), a, b, next = now + LOG_NS;
	struct timespec wait;

	take(line, &line->to_server, now);
	take(line, &line->from_server, now);
	a = give(&line->to_server, now);
	b = give(&line->from_server, now);
	write_log(line, now);
	next = a < next ? a : next;
	next = b < next ? b : next;
	now = cairn_monotonic_ns();
	next = next > now ? next - now : 0;
	wait = (struct timespec){.tv_sec = (time_t)(next / CAIRN_NS_PER_SEC),
				 .tv_nsec = (long)(next % CAIRN_NS_PER_SEC)};
	(void)ppoll(fds, 2, &wait, NULL);
}

static int relay(struct line *line, pid_t client)
{
	int status;

	line->begun_ns = line->logged_ns = cairn_monotonic_ns();
	while (waitpid(client, &status, WNOHANG) == 0)
		step(line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char **after_dashes(char **argv)
{
	for (; *argv; argv++)
		if (strcmp(*argv, "--") == 0) {
			*argv = NULL;
			return argv + 1;
		}
	return NULL;
}

int main(int argc, char **argv)
{
	struct line line = {0};
	uint64_t delay_ms = 0;
	char **client_argv = argc > 5 ? after_dashes(argv + 4) : NULL;
	pid_t server, client;
	int outside, inside, status;

	if (!client_argv || !*client_argv || cairn_parse_u64(argv[1], &delay_ms, NULL) ||
	    cairn_parse_u64(argv[2], &line.rate, NULL) || line.rate == 0) {
		fprintf(stderr, "usage: delayline DELAY-MS BYTES-A-SECOND LOG SERVER... -- "
				"CLIENT...\n");
		return 2;
	}
	line.delay_ns = delay_ms * CAIRN_NS_PER_MS;
	line.log = fopen(argv[3], "we");
	if (!line.log)
		fail(argv[3]);
	setvbuf(line.log, NULL, _IOLBF, 0);
	inside = enter("10.99.0.2/24");
	server = spawn(argv + 4);
	outside = enter("10.99.0.1/24");
	way_init(&line.to_server, outside, inside, line.rate, line.delay_ns);
	way_init(&line.from_server, inside, outside, line.rate, line.delay_ns);
	client = spawn(client_argv);
	status = relay(&line, client);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	fclose(line.log);
	return status;
}
