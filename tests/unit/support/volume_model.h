/* SPDX-License-Identifier: Apache-2.0 */

/* What a volume should hold, kept beside it in memory, and random operations
 * on both. A sector's bytes follow from its number in the model: 0 is zeros.
 */
#ifndef CAIRN_TESTS_UNIT_VOLUME_MODEL_H
#define CAIRN_TESTS_UNIT_VOLUME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_SECTOR 512U

struct volume_model {
	uint32_t *sectors;
	size_t n;
	uint32_t next;   /* number of the next new content */
	uint64_t random; /* state of the generator */
	bool clones;     /* the filesystem can clone ranges */
};

uint64_t volume_model_random(struct volume_model *model, uint64_t below);

/* One random operation on the file and the model: write, rewrite, zeros, punch,
 * zero-range, preallocate, clone a range, write through a mapping, sync. */
void model_step(struct volume_model *model, int fd);

/* The file has grown to `n` sectors. */
void model_grow(struct volume_model *model, size_t n);

uint32_t *model_copy(const struct volume_model *model);

/* True if the bytes read are those of the `n` sectors. */
bool model_fits(const uint32_t *sectors, size_t n, const unsigned char *bytes);

#endif
