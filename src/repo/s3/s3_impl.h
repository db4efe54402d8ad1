/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of this directory share. */
#ifndef CAIRN_REPO_S3_S3_IMPL_H
#define CAIRN_REPO_S3_S3_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/http.h"
#include "repo/s3/sign.h"
#include "repo/store.h"

#define S3_PART_SIZE ((uint64_t)64 << 20)
#define S3_PART_MIN  ((uint64_t)5 << 20) /* S3 takes no smaller one but the last */
#define S3_PARTS_MAX 10000
#define S3_XML_MAX   ((size_t)16 << 20)

struct s3 {
	struct repo_store store;
	struct repo_http *http;
	char *scheme; /* "https://" */
	char *host;   /* of the requests, with the port if it is not the scheme's */
	char *bucket;
	char *bucket_path; /* "/bucket", or "" with virtual hosts; encoded */
	char *prefix;      /* "" or "a/b/" */
	char *access_key, *secret_key, *token, *region;
	uint64_t part_size;
	atomic_int_fast64_t clock_offset; /* of the server, in seconds */
};

/* One request. `key` is not encoded, NULL for the bucket itself; `query` is, and
 * in order. The body's hash is made when `payload` is NULL. */
struct s3_call {
	struct s3 *s3;
	const char *key;
	const char *query;
	const struct repo_id *payload;
	const char *range; /* header or NULL */
	bool if_absent;    /* PUT only where there is no such object */
	struct repo_request request;
	struct repo_answer answer;
	bool clock_set; /* the server's clock was taken once */
};

/* Signs, sends, and tries again; the error for a bad status.
 *
 * CAIRN_EXISTS         `if_absent`, and there is an object
 * CAIRN_UNIMPLEMENTED  `if_absent`, and the server has no conditional writes
 */
int s3_call(struct s3_call *call, struct cairn_err *err);

/* Uploads in parts. */
int s3_put_parts(struct s3 *s3, const char *key, const void *data, size_t n, struct cairn_err *err);

#endif
