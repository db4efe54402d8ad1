/* SPDX-License-Identifier: Apache-2.0 */

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

#define PROC_FILE_MAX 4096

enum { START, CPU, MEMORY, FILES, N_PROCESS };

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

static double open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the one of the directory itself */
}

static void collect(void *arg)
{
	struct net_metrics *metrics = arg;

	net_metric_set(metrics->process[CPU], 0, cpu_seconds());
	net_metric_set(metrics->process[MEMORY], 0, resident_bytes());
	net_metric_set(metrics->process[FILES], 0, open_files());
}

int net_metrics_add_process(struct net_metrics *metrics, struct cairn_err *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < N_PROCESS; i++)
		rc = net_metrics_add(metrics, &specs[i], &metrics->process[i], err);
	if (rc < 0)
		return rc;
	net_metric_set(metrics->process[START], 0, (double)cairn_now_ns() / CAIRN_NS_PER_SEC);
	return net_metrics_on_render(metrics, collect, metrics, err);
}
