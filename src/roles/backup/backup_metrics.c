/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the file of --metrics-file, and reports failures to the push gateway. */

#include "roles/backup/backup_run.h"

#include <string.h>

#include "backup/metrics_file.h"
#include "backup/pushgateway.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cli/output.h"
#include "roles/backup/backup_common.h"
#include "roles/backup/backup_options.h"

static double seconds_since(uint64_t begun_ns)
{
	return (double)(cairn_monotonic_ns() - begun_ns) / (double)CAIRN_NS_PER_SEC;
}

/* Writes the samples. If the work failed (`rc`, `err`), that failure is returned and this
 * one only noted. If it succeeded, a failure here fails the command, because monitoring
 * would conclude that nothing ran. */
static int write_samples(const char *path, const struct metrics_how *how,
			 const struct metrics_sample *samples, size_t n, int rc,
			 struct cairn_err *err)
{
	struct cairn_err why = {0};

	if (backup_metrics_file_write(path, how, samples, n, &why) == 0)
		return rc;
	if (rc) {
		cmd_note("the metrics are not written: %s", why.msg);
		return rc;
	}
	*err = why;
	return cairn_err_wrap(err, "the work is done, but the metrics are not written");
}

int role_metrics_task(const char *path, const char *family, uint64_t begun_ns, int rc,
		      struct cairn_err *err)
{
	struct metrics_how how = {.family = family};
	struct metrics_sample sample = {.ok = rc == 0, .seconds = seconds_since(begun_ns)};

	return path ? write_samples(path, &how, &sample, 1, rc, err) : rc;
}

static struct metrics_sample sample_of(const struct role_run *run, const struct role_item *item,
				       int rc)
{
	return (struct metrics_sample){
		.volume = item->recorded ? item->recorded : item->name,
		.ok = item->tried && !item->failure.code && !run->unprotected &&
		      (rc == 0 || item->result.size > 0),
		.seconds = (double)item->elapsed_ns / (double)CAIRN_NS_PER_SEC,
		.size_bytes = item->result.size,
		.read_bytes = item->result.bytes_read,
		.stored_bytes = item->result.bytes_stored,
	};
}

void role_metrics_push_failure(const struct cmd_backup_create *o, const char *volume)
{
	struct cairn_err why = {0};

	if (o->push_gateway && backup_push_failure(o->push_gateway, volume, &why) != 0)
		cmd_note("the metrics were not sent: %s", why.msg);
}

/* The name of a device in a Job is the same for all claims, so that a failure before its volume
 * is known cannot be reported here; the command that started the Job reports it. */
static void push_failures(const struct role_run *run, const struct metrics_sample *samples,
			  size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!samples[i].ok &&
		    !(run->options->device.device && run->n && !run->items[i].recorded))
			role_metrics_push_failure(run->options, samples[i].volume);
}

int role_metrics_run(const struct role_run *run, int rc, struct cairn_err *err)
{
	const struct cmd_backup_create *o = run->options;
	size_t n_names = (size_t)o->n_names;
	size_t n = run->n ? run->n : n_names;
	cairn_auto_free struct metrics_sample *samples =
		o->metrics_file || o->push_gateway ? cairn_calloc(n + 1, sizeof(*samples)) : NULL;
	/* With --all, if the volumes could not be listed, every volume that was backed up
	 * before counts as failed. */
	struct metrics_how how = {.family = METRICS_BACKUP,
				  .others_failed = o->all && run->n == 0,
				  .drop_others = o->all && run->n > 0};

	if (!o->metrics_file && !o->push_gateway)
		return rc;
	if (!samples)
		return rc ? rc : cairn_err_nomem(err, "metrics");
	for (size_t i = 0; i < n; i++)
		samples[i] = run->n ? sample_of(run, &run->items[i], rc)
				    : (struct metrics_sample){.volume = o->names[i]};
	push_failures(run, samples, n);
	return o->metrics_file ? write_samples(o->metrics_file, &how, samples, n, rc, err) : rc;
}
