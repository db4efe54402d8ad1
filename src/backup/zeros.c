/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/zeros.h"

#include <sys/mman.h>

#include "base/err.h"
#include "base/mem.h"

#define SECTOR 512U
#define SLOTS  (2 * ZEROS_KINDS_MAX)

struct slot {
	uint64_t length; /* 0: free */
	struct repo_id id;
};

struct zeros {
	void *bytes; /* a mapping that is only read, so that all of it is the kernel's zero page */
	size_t n;
	struct slot slots[SLOTS];
};

int backup_zeros_new(struct zeros **ret, struct cairn_err *err)
{
	struct zeros *zeros = cairn_calloc(1, sizeof(*zeros));

	if (!zeros)
		return cairn_err_nomem(err, "zeros");
	zeros->bytes = mmap(NULL, ZEROS_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zeros->bytes == MAP_FAILED) {
		free(zeros);
		return cairn_err_nomem(err, "zeros");
	}
	*ret = zeros;
	return 0;
}

void backup_zeros_free(struct zeros *zeros)
{
	if (!zeros)
		return;
	munmap(zeros->bytes, ZEROS_MAX);
	free(zeros);
}

const uint8_t *backup_zeros_bytes(const struct zeros *zeros)
{
	return zeros->bytes;
}

const struct repo_id *backup_zeros_id(struct zeros *zeros, uint64_t length)
{
	size_t at = (length / SECTOR * 0x9e3779b97f4a7c15ULL >> 32) % SLOTS;

	if (length == 0 || length > ZEROS_MAX || length % SECTOR != 0)
		return NULL;
	while (zeros->slots[at].length && zeros->slots[at].length != length)
		at = (at + 1) % SLOTS;
	if (zeros->slots[at].length)
		return &zeros->slots[at].id;
	if (zeros->n == ZEROS_KINDS_MAX)
		return NULL;
	if (!repo_id_of(zeros->bytes, length, &zeros->slots[at].id))
		return NULL;
	zeros->n++;
	zeros->slots[at].length = length;
	return &zeros->slots[at].id;
}

uint64_t backup_zeros_longest(uint64_t volume_size)
{
	uint64_t longest = ZEROS_USUAL;

	while (longest < ZEROS_MAX && volume_size / longest > 65536)
		longest *= 2;
	return longest;
}

uint64_t backup_zeros_cut(uint64_t run, uint64_t longest, bool *sparse)
{
	uint64_t length = longest;

	if (!*sparse && run >= ZEROS_SPARSE) {
		*sparse = true;
		return ZEROS_SPARSE;
	}
	if (run <= ZEROS_WHOLE)
		return run;
	while (length > run)
		length /= 2;
	return length;
}
