/* SPDX-License-Identifier: Apache-2.0 */

/* SHA-256 of two buffers of one length at once: pure.
 *
 * A processor with SHA instructions waits for the result of one round before it begins the next. With
 * a second buffer it works on that meanwhile, and hashes both in little more than the time of one.
 * Other processors hash one after the other.
 */
#ifndef CAIRN_REPO_SHA256_PAIR_H
#define CAIRN_REPO_SHA256_PAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "repo/id.h"

/* The hashes of `n` bytes each; false when memory is short. */
__attribute__((warn_unused_result)) bool repo_id_of_pair(const void *const data[2], size_t n,
							 struct repo_id ret[2]);

#endif
