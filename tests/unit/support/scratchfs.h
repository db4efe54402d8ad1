/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem of a chosen kind to test in: an image in a scratch directory,
 * mounted through a loop device. Everything is taken down at exit too, so a
 * failed assertion leaves nothing behind.
 */
#ifndef CAIRN_TESTS_UNIT_SCRATCHFS_H
#define CAIRN_TESTS_UNIT_SCRATCHFS_H

#include <stdbool.h>
#include <stdint.h>

enum scratchfs_kind {
	SCRATCHFS_PLAIN, /* a directory where TMPDIR is; needs no rights */
	SCRATCHFS_BTRFS,
	SCRATCHFS_BTRFS_COMPRESSED,
	SCRATCHFS_XFS,
	SCRATCHFS_XFS_NO_REFLINK,
	SCRATCHFS_EXT4_SECONDS, /* timestamps of whole seconds */
};

/* Makes it and returns its directory, valid until scratchfs_remove(). On a
 * machine that does not let it, says why on standard error and returns NULL:
 * the test program then exits 77. One at a time in a program. */
const char *scratchfs_make(enum scratchfs_kind kind, uint64_t size);
void scratchfs_remove(void);

/* As after a power cut: what had reached the device by now is all there is.
 * Nothing in it may be open. False where it cannot be done. */
bool scratchfs_power_cut(void);

/* Runs a program; false when it fails. */
bool scratchfs_run(const char *const argv[]);

#endif
