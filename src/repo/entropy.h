/* SPDX-License-Identifier: Apache-2.0 */

/* Estimates whether bytes can be compressed. */
#ifndef CAIRN_REPO_ENTROPY_H
#define CAIRN_REPO_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when all byte values are about equally frequent, as in random, encrypted or
 * compressed data. It examines a sample of 1024 bytes, which is a hundred times faster
 * than compressing. Repetitions are not detected; false for less than 1024 bytes. */
bool repo_looks_random(const uint8_t *data, size_t n);

#endif
