/* SPDX-License-Identifier: Apache-2.0 */

/* Random bytes from the kernel. */
#ifndef CAIRN_BASE_RANDOM_H
#define CAIRN_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;

int cairn_random_bytes(void *out, size_t n, struct cairn_err *err);

/* `n_bytes` random bytes as 2 * n_bytes lower-case hex digits and a NUL. */
int cairn_random_hex(char *out, size_t n_bytes, struct cairn_err *err);

#endif
