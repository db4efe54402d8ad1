/* SPDX-License-Identifier: Apache-2.0 */

/* The metadata file of a backup. What is taken can be written and is taken again, the
 * same. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backup/image_metadata.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void must_equal(const char *a, const char *b)
{
	/* An empty text is not written. */
	must(strcmp(a ? a : "", b ? b : "") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct metadata first = {0};
	struct metadata again = {0};
	char *text = NULL;
	size_t n = 0;
	int rc = backup_metadata_parse((const char *)data, size, &first, NULL);

	must(rc == 0 || rc == CAIRN_DATA_LOSS || rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_NO_SPACE);
	if (rc)
		return 0;
	must(backup_metadata_write(&first, &text, &n, NULL) == 0);
	must(backup_metadata_parse(text, n, &again, NULL) == 0);
	must_equal(first.volume_id, again.volume_id);
	must_equal(first.snapshot_id, again.snapshot_id);
	must_equal(first.parent_backup, again.parent_backup);
	must(first.size == again.size && first.merge_hand == again.merge_hand);
	backup_metadata_done(&again);
	backup_metadata_done(&first);
	free(text);
	return 0;
}
