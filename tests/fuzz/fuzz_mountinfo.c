/* SPDX-License-Identifier: Apache-2.0 */

/* Any text as a mount table: every entry lies within the text, the cursor only
 * moves on, and a line that is given back means what it says. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool/device/mountinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_within(const char *field, const char *text, size_t size)
{
	if (field < text || field + strlen(field) > text + size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct mountinfo_entry entry;
	char *cursor = text;
	const char *before = text;

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	while (pool_mountinfo_next(&cursor, &entry)) {
		if (cursor <= before || cursor > text + size)
			abort();
		before = cursor;
		check_within(entry.root, text, size);
		check_within(entry.mount_point, text, size);
		check_within(entry.fs_type, text, size);
		check_within(entry.source, text, size);
		if (!entry.root[0] || !entry.mount_point[0] || !entry.fs_type[0])
			abort();
	}
	if (*cursor != '\0')
		abort();
	free(text);
	return 0;
}
