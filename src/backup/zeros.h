/* SPDX-License-Identifier: Apache-2.0 */

/* The ids of chunks of zeros, and how a run of zeros is written.
 *
 * A hole of a volume is written as chunks of few different lengths, each stored
 * once in a repository. restic restores a file sparsely only if one of its
 * chunks is exactly 512 KiB of zeros, so one chunk gets that length if a run is
 * long enough.
 *
 * Belongs to one thread.
 */
#ifndef CAIRN_BACKUP_ZEROS_H
#define CAIRN_BACKUP_ZEROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"

struct cairn_err;
struct zeros;

#define ZEROS_SPARSE    (512U << 10) /* the length that makes restic restore sparsely */
#define ZEROS_WHOLE     (1U << 20)   /* runs up to this are one chunk */
#define ZEROS_MAX       (64U << 20)  /* the longest chunk of zeros */
#define ZEROS_USUAL     (8U << 20)   /* the longest on volumes of up to half a TiB */
#define ZEROS_KINDS_MAX 8192U        /* different lengths that are cached */

int backup_zeros_new(struct zeros **ret, struct cairn_err *err);
void backup_zeros_free(struct zeros *zeros);
CAIRN_DEFINE_CLEANUP(struct zeros, backup_zeros_free);

/* The id of `length` zeros, or NULL when the length is above the maximum, not a
 * multiple of 512, or there are too many different ones. */
const struct repo_id *backup_zeros_id(struct zeros *zeros, uint64_t length);

/* ZEROS_MAX zeros. */
const uint8_t *backup_zeros_bytes(const struct zeros *zeros);

/* The longest chunk of zeros for a volume of that size. */
uint64_t backup_zeros_longest(uint64_t volume_size);

/* The length of the first chunk of a run of `run` zeros. `*sparse` is set once
 * a chunk of ZEROS_SPARSE was returned. */
uint64_t backup_zeros_cut(uint64_t run, uint64_t longest, bool *sparse);

#endif
