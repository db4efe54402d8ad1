/* SPDX-License-Identifier: Apache-2.0 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

#define MAPPINGS_MAX 512 /* four for each library */

struct mapping {
	uint64_t from, to;
};

/* "from-to perms offset device inode path": a file that is mapped and can not be
 * written to. */
static bool is_mapping(const char *line, bool *ret_file, struct mapping *ret)
{
	struct mapping at;
	char perms[5];
	uint64_t inode;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64, &at.from, &at.to, perms,
		   &inode) != 4)
		return false;
	*ret = at;
	*ret_file = inode != 0 && perms[1] == '-' && perms[3] == 'p';
	return true;
}

/* Mappings without a page of their own: dropping one of those would undo what the
 * loader wrote there before it was made read-only. */
static size_t find_clean(FILE *smaps, struct mapping *found)
{
	struct mapping at = {0};
	bool file = false;
	char *line = NULL;
	size_t cap = 0;
	size_t n = 0;

	while (n < MAPPINGS_MAX && getline(&line, &cap, smaps) > 0) {
		uint64_t kib;

		if (is_mapping(line, &file, &at))
			continue;
		if (file && sscanf(line, "Anonymous: %" SCNu64 " kB", &kib) == 1 && kib == 0)
			found[n++] = at;
	}
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
