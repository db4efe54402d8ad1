/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "repo/repo_check.h"

#define QUIET_NS       (500 * CAIRN_NS_PER_MS) /* shorter work is not worth a line */
#define DRAW_NS        (100 * CAIRN_NS_PER_MS)
#define EVENT_NS       CAIRN_NS_PER_SEC
#define BAR_CELLS      24U
#define LINE_MAX_BYTES 200

/* Seconds that are left at the rate so far. */
static uint64_t backup_progress_left(uint64_t done, uint64_t total, uint64_t elapsed_ns)
{
	if (done == 0 || total <= done)
		return 0;
	return (uint64_t)((double)(total - done) / (double)done * (double)elapsed_ns /
			  (double)CAIRN_NS_PER_SEC);
}

static uint64_t rate_of(uint64_t done, uint64_t elapsed_ns)
{
	return elapsed_ns ? (uint64_t)((double)done * (double)CAIRN_NS_PER_SEC / (double)elapsed_ns)
			  : 0;
}

static void backup_progress_draw(struct role_progress *progress, uint64_t done, uint64_t total,
				 uint64_t elapsed)
{
	char bar[BAR_CELLS + 1];
	char line[LINE_MAX_BYTES];
	char rate[CAIRN_SIZE_TEXT_MAX];
	char of[CAIRN_SIZE_TEXT_MAX];
	double share = total ? (double)done / (double)total : 0;
	unsigned cells = (unsigned)(share * BAR_CELLS);
	uint64_t seconds = backup_progress_left(done, total, elapsed);
	int n;

	memset(bar, '-', BAR_CELLS);
	memset(bar, '#', cells < BAR_CELLS ? cells : BAR_CELLS);
	bar[BAR_CELLS] = '\0';
	if (progress->counts)
		n = snprintf(line, sizeof(line),
			     "\r\033[K%s [%s] %" PRIu64 " of %" PRIu64 "  %" PRIu64 ":%02" PRIu64
			     " left",
			     progress->step, bar, done, total, seconds / 60, seconds % 60);
	else
		n = snprintf(line, sizeof(line),
			     "\r\033[K%s [%s] %3u %% of %s  %s/s  %" PRIu64 ":%02" PRIu64 " left",
			     progress->step, bar, (unsigned)(share * 100),
			     cairn_format_size(total, of),
			     cairn_format_size(rate_of(done, elapsed), rate), seconds / 60,
			     seconds % 60);
	if (n > 0)
		(void)cairn_write_full(STDERR_FILENO, line,
				       (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	progress->drawn = true;
}

static void backup_progress_event(const struct role_progress *progress, uint64_t done,
				  uint64_t total, uint64_t elapsed)
{
	struct cairn_json json;

	role_event_begin(&json, "progress");
	cmd_json_field_string(&json, "step", progress->step);
	cmd_json_field_u64(&json, progress->counts ? "done" : "bytes_done", done);
	cmd_json_field_u64(&json, progress->counts ? "total" : "bytes_total", total);
	if (!progress->counts)
		cmd_json_field_u64(&json, "bytes_per_second", rate_of(done, elapsed));
	cmd_json_field_u64(&json, "seconds_remaining", backup_progress_left(done, total, elapsed));
	(void)role_event_end(&json, NULL);
}

static void backup_progress_show(struct role_progress *progress, const char *step, uint64_t done,
				 uint64_t total, bool counts)
{
	uint64_t now;

	progress->counts = counts;
	if (!progress->bar && !progress->events)
		return;
	now = cairn_monotonic_ns();
	if (!progress->step || strcmp(progress->step, step) != 0) {
		progress->step = step;
		progress->begun_ns = now;
		progress->next_ns = now + QUIET_NS;
	}
	if (now < progress->next_ns)
		return;
	progress->next_ns = now + (progress->bar ? DRAW_NS : EVENT_NS);
	if (progress->bar)
		backup_progress_draw(progress, done, total, now - progress->begun_ns);
	else
		backup_progress_event(progress, done, total, now - progress->begun_ns);
}

void role_progress_step(void *arg, const char *step, uint64_t done, uint64_t total)
{
	backup_progress_show(arg, step, done, total, false);
}

void role_progress_count(void *arg, const char *step, uint64_t done, uint64_t total)
{
	backup_progress_show(arg, step, done, total, strcmp(step, REPO_CHECK_DATA) != 0);
}

static bool backup_progress_cancelled(void *arg)
{
	(void)arg;
	return cmd_interrupted() != 0;
}

void role_progress_begin(struct role_progress *progress)
{
	*progress = (struct role_progress){
		.bar = !cmd_options.quiet && !cmd_options.no_progress && !role_json() &&
		       isatty(STDERR_FILENO),
		.events = !cmd_options.quiet && !cmd_options.no_progress && role_json(),
		.hooks = {.report = role_progress_step,
			  .cancelled = backup_progress_cancelled,
			  .arg = progress},
	};
	cmd_catch_interrupts();
}

static void backup_progress_erase(struct role_progress *progress)
{
	static const char text[] = "\r\033[K";

	if (progress->drawn)
		(void)cairn_write_full(STDERR_FILENO, text, sizeof(text) - 1);
	progress->drawn = false;
}

void role_progress_end(struct role_progress *progress)
{
	backup_progress_erase(progress);
	progress->bar = progress->events = false;
}

void role_say(void *arg, const char *text)
{
	struct role_progress *progress = arg;
	struct cairn_json json;

	backup_progress_erase(progress);
	if (!role_json()) {
		cmd_note("%s", text);
		return;
	}
	role_event_begin(&json, "remark");
	cmd_json_field_string(&json, "text", text);
	(void)role_event_end(&json, NULL);
}
