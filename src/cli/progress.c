/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/progress.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/options.h"

#define QUIET_NS (500 * CAIRN_NS_PER_MS) /* shorter operations do not show a line */
#define DRAW_NS  (100 * CAIRN_NS_PER_MS)

static atomic_int interrupted; /* written by a handler, read by any thread */

static void on_interrupt(int sig)
{
	interrupted = sig;
}

void cmd_catch_interrupts(void)
{
	/* SA_RESETHAND: a second signal ends the program at once. */
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

int cmd_interrupted(void)
{
	return interrupted;
}

static void progress_report(void *arg, uint64_t done, uint64_t total)
{
	struct cmd_progress *progress = arg;
	char line[80];
	unsigned seconds;
	uint64_t now;
	int n;

	if (!progress->shown)
		return;
	now = cairn_monotonic_ns();
	if (now < progress->next_ns)
		return;
	progress->next_ns = now + DRAW_NS;
	progress->drawn = true;
	seconds = (unsigned)((now - progress->begun_ns) / CAIRN_NS_PER_SEC);
	if (total > 0)
		n = snprintf(line, sizeof(line), "\r\033[K%s: %u %%, %u s", progress->what,
			     (unsigned)((double)done * 100.0 / (double)total), seconds);
	else
		n = snprintf(line, sizeof(line), "\r\033[K%s: %u s", progress->what, seconds);
	if (n > 0)
		(void)cairn_write_full(STDERR_FILENO, line, (size_t)n);
}

static bool progress_cancelled(void *arg)
{
	(void)arg;
	return interrupted != 0;
}

void cmd_progress_begin(struct cmd_progress *progress, const char *what)
{
	uint64_t now = cairn_monotonic_ns();

	*progress = (struct cmd_progress){
		.what = what,
		.shown = !cmd_options.quiet && !cmd_options.no_progress && isatty(STDERR_FILENO),
		.begun_ns = now,
		.next_ns = now + QUIET_NS,
		.hooks = {.report = progress_report,
			  .cancelled = progress_cancelled,
			  .arg = progress},
	};
	cmd_catch_interrupts();
}

void cmd_progress_clear(struct cmd_progress *progress)
{
	static const char erase[] = "\r\033[K";

	if (progress->drawn)
		(void)cairn_write_full(STDERR_FILENO, erase, sizeof(erase) - 1);
	progress->drawn = false;
}

void cmd_progress_end(struct cmd_progress *progress)
{
	cmd_progress_clear(progress);
	progress->shown = false;
}
