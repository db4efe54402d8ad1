/* SPDX-License-Identifier: Apache-2.0 */

/* A guess whether bytes can be compressed. */
#ifndef CAIRN_REPO_ENTROPY_H
#define CAIRN_REPO_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when all values of a byte are about as frequent, as in what is random, encrypted
 * or compressed. It looks at a sample of 1024 bytes: a hundred times faster than
 * compressing. Repetitions are not seen, and less than 1024 bytes are never it. */
bool repo_looks_random(const uint8_t *data, size_t n);

#endif
