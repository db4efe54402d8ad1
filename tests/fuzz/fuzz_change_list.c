/* SPDX-License-Identifier: Apache-2.0 */

/* A list of changes. Extents are within the volume; a list that is taken says where it ends,
 * so that it is refused when anything at its end is missing. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "backup/change_list.h"
#include "base/err.h"
#include "block/extent.h"

#define SIZE ((uint64_t)20 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static int check_extent(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	(void)arg;
	(void)err;
	must(extent->length > 0 && extent->offset < SIZE);
	must(extent->length <= SIZE - extent->offset);
	return 0;
}

static int parse(const uint8_t *data, size_t size)
{
	struct block_sink sink = {.emit = check_extent};
	FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
	int rc;

	must(file);
	rc = backup_change_list_parse(file, SIZE, &sink, NULL);
	fclose(file);
	must(rc == 0 || rc == CAIRN_INVALID);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || parse(data, size) != 0)
		return 0;
	/* Cut at every byte of the last two lines, and some before. */
	for (size_t cut = 1; cut < size && cut <= 64; cut++)
		must(parse(data, size - cut) == CAIRN_INVALID);
	return 0;
}
