/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/siphash.h"
#include "pool/rbd/rbd_export_fuse.h"
#include "pool/rbd/rbd_export_server.h"

#define SLOT_MASK   ((1ULL << 60) - 1)
#define SLOT_ATTACH (5ULL << 60)
#define SLOT_EXPORT (6ULL << 60)

#define PATH_BYTES 4096

/* A server that ends by itself this often, one shortly after another, is given up. */
#define RESTARTS_MAX      20U
#define RESTART_PAUSE_MS  50U
#define RESTART_FORGET_NS (60 * CAIRN_NS_PER_SEC)

static uint64_t slot_of(uint64_t kind, const char *id)
{
	static const struct cairn_siphash_key key = {0x636169726e, 0x726264};

	return kind | (cairn_siphash(&key, id, strlen(id)) & SLOT_MASK);
}

uint64_t rbd_export_attach_slot(const char *id)
{
	return slot_of(SLOT_ATTACH, id);
}

uint64_t rbd_export_slot(const char *id)
{
	return slot_of(SLOT_EXPORT, id);
}

/* The processes of the export, as the keeper knows them. */
struct keeper {
	const struct rbd_export_spec *spec;
	struct export_state *state; /* shared */
	int fuse;
	int pid_file;
};

static int report_err(const struct cairn_err *err)
{
	rbd_export_say(err->code, err->msg);
	return 1;
}

static int keeper_lock(struct keeper *keeper, struct cairn_err *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s" RBD_EXPORT_PID_ENDING, keeper->spec->file);
	keeper->pid_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (keeper->pid_file < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	if (flock(keeper->pid_file, LOCK_EX | LOCK_NB) < 0)
		return cairn_err_set(err, CAIRN_ABORTED, "'%s' is still exported",
				     keeper->spec->file);
	return 0;
}

static int keeper_open(struct keeper *keeper, struct cairn_err *err)
{
	int rc = keeper_lock(keeper, err);

	if (rc)
		return rc;
	keeper->fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (keeper->fuse < 0 && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this machine has no FUSE (/dev/fuse)");
	if (keeper->fuse < 0)
		return cairn_err_sys(err, errno, "open '/dev/fuse'");
	keeper->state = mmap(NULL, sizeof(*keeper->state), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (keeper->state == MAP_FAILED)
		return cairn_err_nomem(err, "export");
	return 0;
}

static void write_pids(const struct keeper *keeper, pid_t server)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%d %d\n", (int)getpid(), (int)server);

	(void)!pwrite(keeper->pid_file, text, (size_t)n, 0);
	(void)!ftruncate(keeper->pid_file, n);
}

static pid_t start_server(const struct keeper *keeper)
{
	pid_t server = fork();

	if (server == 0) {
		prctl(PR_SET_NAME, "cairn-rbd-serve");
		_exit(rbd_export_server(keeper->spec, keeper->fuse, keeper->state));
	}
	return server;
}

/* A server that was killed is started again if the kernel can repeat what was under way. One
 * that ended by itself has said why, and the connection ends with it. */
static int keep(struct keeper *keeper)
{
	uint64_t last = 0;
	unsigned restarts = 0;

	for (;;) {
		pid_t server = start_server(keeper);
		int status = 0;

		if (server < 0)
			return 1;
		write_pids(keeper, server);
		rbd_export_hush();
		while (waitpid(server, &status, 0) < 0 && errno == EINTR)
			;
		if (WIFEXITED(status) || !keeper->state->begun || !keeper->state->resend)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (cairn_monotonic_ns() - last > RESTART_FORGET_NS)
			restarts = 0;
		last = cairn_monotonic_ns();
		if (restarts++ == RESTARTS_MAX)
			return 1;
		cairn_sleep_ms(restarts > 1 ? RESTART_PAUSE_MS * restarts : 0);
	}
}

/* The disk of a filesystem does not go because a terminal or a session does: unmounting ends
 * the export. The kernel kills something else first when memory is short. */
static void become_daemon(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "-1000", 5);
	cairn_closep(&fd);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setsid();
	(void)!chdir("/");
	/* Memory for its own work must not wait for the pages that it is to write. */
	(void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "cairn-rbd-keep");
}

int rbd_export_run(const struct rbd_export_spec *spec)
{
	struct keeper keeper = {.spec = spec, .fuse = -1, .pid_file = -1};
	struct cairn_err err = {0};
	pid_t child;

	if (keeper_open(&keeper, &err) != 0)
		return report_err(&err);
	child = fork();
	if (child < 0) {
		(void)cairn_err_sys(&err, errno, "start the export");
		return report_err(&err);
	}
	if (child > 0)
		return 0; /* the caller waits for this process, and reads on */
	become_daemon();
	return keep(&keeper);
}
