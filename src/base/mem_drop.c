/* SPDX-License-Identifier: Apache-2.0 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

#define MAPPINGS_MAX 512 /* four per library */

struct mapping {
	uint64_t from, to;
};

static bool take_hex(const char **at, char end, uint64_t *ret)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit;
	uint64_t value = 0;

	for (; **at && (digit = strchr(digits, **at)); (*at)++)
		value = value << 4 | (uint64_t)(digit - digits);
	*ret = value;
	return *(*at)++ == end;
}

/* A mapping begins with "from-to perms offset device inode path". *ret_clean is true if it
 * is a file mapping and not writable. */
static bool is_mapping(const char *line, bool *ret_clean, struct mapping *ret)
{
	struct mapping at;
	const char *path = strchr(line, '/');

	if (!take_hex(&line, '-', &at.from) || !take_hex(&line, ' ', &at.to))
		return false;
	*ret = at;
	*ret_clean = path && strlen(line) > 4 && line[1] == '-' && line[3] == 'p';
	return true;
}

/* Finds mappings without private pages: dropping a private page would undo the relocations
 * that the loader wrote before it made the page read-only. */
static size_t find_clean(FILE *smaps, struct mapping *found)
{
	static const char none[] = "Anonymous:             0 kB\n";
	struct mapping at = {0};
	bool clean = false;
	char *line = NULL;
	size_t cap = 0;
	size_t n = 0;

	while (n < MAPPINGS_MAX && getline(&line, &cap, smaps) > 0)
		if (!is_mapping(line, &clean, &at) && clean && strcmp(line, none) == 0)
			found[n++] = at;
	free(line);
	return n;
}

void cairn_mem_drop_clean(void)
{
	struct mapping found[MAPPINGS_MAX];
	FILE *smaps = fopen("/proc/self/smaps", "re");
	size_t n;

	if (!smaps)
		return;
	n = find_clean(smaps, found);
	fclose(smaps);
	for (size_t i = 0; i < n; i++)
		madvise((void *)(uintptr_t)found[i].from, found[i].to - found[i].from,
			MADV_DONTNEED);
}
