/* SPDX-License-Identifier: Apache-2.0 */

#include "net/limit_events.h"
#include "net/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "net/metrics_internal.h"
#include "net/shares.h"

/* Descriptors that are probed one by one if /proc/self/fd is not readable. */
#define PROBED_FILES 65536

#define PROC_FILE_MAX 4096

enum {
	START,
	CPU,
	MEMORY,
	FILES,
	CONNECTIONS,
	STRANGERS,
	REQUEST_BYTES,
	REFUSED,
	DISPLACED,
	HANDSHAKES_REFUSED,
	REQUESTS_REFUSED,
	CALMED,
	LIMITED,
	N_PROCESS
};

_Static_assert(N_PROCESS == NET_METRICS_PROCESS, "the registry has room for them");

static const struct net_metric_spec specs[N_PROCESS] = {
	[START] = {.name = "process_start_time_seconds",
		   .help = "When the process started, in seconds since 1970.",
		   .kind = NET_GAUGE},
	[CPU] = {.name = "process_cpu_seconds_total",
		 .help = "User and system CPU time spent, in seconds.",
		 .kind = NET_COUNTER_READ},
	[MEMORY] = {.name = "process_resident_memory_bytes",
		    .help = "Resident memory in bytes.",
		    .kind = NET_GAUGE},
	[FILES] = {.name = "process_open_fds", .help = "Open file descriptors.", .kind = NET_GAUGE},
	[CONNECTIONS] = {.name = "cairn_net_connections",
			 .help = "Connections to the servers of this process.",
			 .kind = NET_GAUGE},
	[STRANGERS] = {.name = "cairn_net_strangers",
		       .help = "Connections whose peer has not been authenticated yet.",
		       .kind = NET_GAUGE},
	[REQUEST_BYTES] = {.name = "cairn_net_request_bytes",
			   .help = "Memory of gRPC calls under way and of their fields.",
			   .kind = NET_GAUGE},
	[REFUSED] = {.name = "cairn_net_connections_refused_total",
		     .help = "Connections closed on accept.",
		     .kind = NET_COUNTER_READ},
	[DISPLACED] = {.name = "cairn_net_connections_displaced_total",
		       .help = "Connections closed for a newer one.",
		       .kind = NET_COUNTER_READ},
	[HANDSHAKES_REFUSED] = {.name = "cairn_net_handshakes_refused_total",
				.help = "Connections closed because their address began too many "
					"TLS handshakes.",
				.kind = NET_COUNTER_READ},
	[REQUESTS_REFUSED] = {.name = "cairn_net_requests_refused_total",
			      .help = "gRPC calls refused because calls took too much memory.",
			      .kind = NET_COUNTER_READ},
	[CALMED] = {.name = "cairn_net_connections_calmed_total",
		    .help = "Connections ended because their peer asked for too much.",
		    .kind = NET_COUNTER_READ},
	[LIMITED] = {.name = "cairn_net_limited_total",
		     .help = "How often another limit on peers acted, by limit.",
		     .kind = NET_COUNTER_READ,
		     .labels = {{"limit", net_limit_names}}},
};

static double cpu_seconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
	       ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6;
}

/* The second number of /proc/self/statm, in pages. */
static double resident_bytes(void)
{
	cairn_auto_free char *text = NULL;
	uint64_t resident;
	char *second;
	size_t len;

	if (cairn_file_read(AT_FDCWD, "/proc/self/statm", PROC_FILE_MAX, &text, &len, NULL) < 0)
		return 0;
	second = text + strcspn(text, " ");
	second += strspn(second, " ");
	second[strcspn(second, " ")] = 0;
	if (cairn_parse_u64(second, &resident, NULL) < 0)
		return 0;
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double metrics_process_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	/* An undumpable process that does not run as root cannot read its own /proc/self/fd. */
	if (!dir) {
		for (int fd = 0; fd < PROBED_FILES; fd++)
			n += fcntl(fd, F_GETFD) >= 0;
		return n;
	}
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the descriptor of the directory */
}

static void collect_servers(struct net_metrics *metrics)
{
	struct net_shares_stats s;

	net_shares_totals(&s);
	net_metric_set(metrics->process[CONNECTIONS], 0, (double)s.connections);
	net_metric_set(metrics->process[STRANGERS], 0, (double)s.strangers);
	net_metric_set(metrics->process[REQUEST_BYTES], 0, (double)s.request_bytes);
	net_metric_set(metrics->process[REFUSED], 0, (double)s.refused);
	net_metric_set(metrics->process[DISPLACED], 0, (double)s.displaced);
	net_metric_set(metrics->process[HANDSHAKES_REFUSED], 0, (double)s.handshakes_refused);
	net_metric_set(metrics->process[REQUESTS_REFUSED], 0, (double)s.requests_refused);
	net_metric_set(metrics->process[CALMED], 0, (double)s.calmed);
	for (unsigned i = 0; i < N_NET_LIMITS; i++)
		net_metric_set(metrics->process[LIMITED], i,
			       (double)net_limit_counted((enum net_limit)i));
}

static void metrics_process_collect(void *arg)
{
	struct net_metrics *metrics = arg;

	net_metric_set(metrics->process[CPU], 0, cpu_seconds());
	net_metric_set(metrics->process[MEMORY], 0, resident_bytes());
	net_metric_set(metrics->process[FILES], 0, metrics_process_open_files());
	collect_servers(metrics);
}

int net_metrics_add_process(struct net_metrics *metrics, struct cairn_err *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < N_PROCESS; i++)
		rc = net_metrics_add(metrics, &specs[i], &metrics->process[i], err);
	if (rc < 0)
		return rc;
	net_metric_set(metrics->process[START], 0, (double)cairn_now_ns() / CAIRN_NS_PER_SEC);
	return net_metrics_on_render(metrics, metrics_process_collect, metrics, err);
}
