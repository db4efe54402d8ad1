/* SPDX-License-Identifier: Apache-2.0 */

/* Parser of S3's few XML responses: pure. */
#ifndef CAIRN_REPO_S3_XML_H
#define CAIRN_REPO_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define S3_TEXT_MAX 2048 /* keys have 1024 bytes at most; tokens are not longer in practice */

/* One page of a listing. */
struct s3_page {
	bool truncated;
	char token[S3_TEXT_MAX]; /* where the next page begins */
};

typedef int s3_key_fn(void *arg, const char *key, uint64_t size, struct cairn_err *err);

/* CAIRN_INTERNAL  not a listing */
int s3_parse_list(const char *xml, size_t n, s3_key_fn *fn, void *arg, struct s3_page *ret,
		  struct cairn_err *err);

/* The text of the first element of that name, anywhere; false when there is
 * none, or it is longer than `max` - 1. */
bool s3_find_text(const char *xml, size_t n, const char *name, char *out, size_t max);

#endif
