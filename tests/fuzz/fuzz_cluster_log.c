/* SPDX-License-Identifier: Apache-2.0 */

/* What a Job's container wrote. Whatever it is, texts for people are printable and
 * bounded, and the same bytes read again tell nothing new. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_log.h"
#include "backup/cluster/cluster_objects.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void must_be_printable(const char *text)
{
	must(strlen(text) < CLUSTER_LOG_TEXT_MAX && cairn_text_printable(text, strlen(text)));
}

static void count(void *arg, const struct cluster_log_event *event)
{
	unsigned *n = arg;

	(*n)++;
	if (event->text)
		must_be_printable(event->text);
	if (event->step)
		must_be_printable(event->step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned n = 0;
	unsigned before;
	struct cluster_log log = {.tell = count, .arg = &n};
	uint64_t bytes;

	backup_cluster_log_take(&log, (const char *)data, size);
	must_be_printable(log.error);
	must_be_printable(log.last_text);
	must(log.code <= 0);
	before = n;
	backup_cluster_log_take(&log, (const char *)data, size);
	must(n == before);
	backup_cluster_log_done(&log);
	if (size > 0 && size < 64) {
		char text[65];

		memcpy(text, data, size);
		text[size] = '\0';
		(void)backup_cluster_quantity(text, &bytes);
	}
	return 0;
}
