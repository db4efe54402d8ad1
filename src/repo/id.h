/* SPDX-License-Identifier: Apache-2.0 */

/* Ids of a repository: SHA-256.
 *
 * A blob's id is the hash of its plain bytes, a file's that of its stored bytes;
 * written they are 64 lower-case hex digits.
 */
#ifndef CAIRN_REPO_ID_H
#define CAIRN_REPO_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPO_ID_SIZE     32
#define REPO_ID_TEXT_LEN 64
#define REPO_ID_TEXT_MAX 65 /* with the NUL */

struct repo_id {
	uint8_t bytes[REPO_ID_SIZE];
};

/* The hash of `n` bytes; false when memory is short. */
__attribute__((warn_unused_result)) bool repo_id_of(const void *data, size_t n,
						    struct repo_id *ret);

bool repo_id_equal(const struct repo_id *a, const struct repo_id *b);
int repo_id_compare(const struct repo_id *a, const struct repo_id *b);
bool repo_id_is_zero(const struct repo_id *id);

/* Hex digits and a NUL. Returns `out`. */
const char *repo_id_format(const struct repo_id *id, char out[REPO_ID_TEXT_MAX]);

/* Exactly 64 hex digits of either case; false for anything else. */
bool repo_id_parse(const char *text, size_t n, struct repo_id *ret);

#endif
