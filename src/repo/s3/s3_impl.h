/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory. */
#ifndef CAIRN_REPO_S3_S3_IMPL_H
#define CAIRN_REPO_S3_S3_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/instant.h"
#include "repo/repo_http.h"
#include "repo/repo_store.h"
#include "repo/s3/sign.h"

#define S3_PART_SIZE ((uint64_t)64 << 20)
#define S3_PART_MIN  ((uint64_t)5 << 20) /* S3's minimum, except for the last part */
#define S3_PARTS_MAX 10000
#define S3_XML_MAX   ((size_t)16 << 20)

/* In the other mode, GOVERNANCE, users with the bypass permission can remove the
 * protection. */
#define S3_LOCK_MODE "COMPLIANCE"

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
	uint64_t lock_days; /* days for which new objects except locks are protected; 0: none */
	atomic_int_fast64_t clock_offset; /* of the server, in seconds */
	atomic_bool wants_md5;            /* the server refused a body without Content-MD5 */
};

/* One request. `key` is not encoded, NULL for the bucket itself; `query` is
 * encoded and sorted. The body's hash is computed if `payload` is NULL. */
struct s3_call {
	struct s3 *s3;
	const char *key;
	const char *query;
	const struct repo_id *payload;
	const char *range; /* header or NULL */
	bool if_absent;    /* PUT only if the object does not exist */
	bool lock;         /* the new object is protected for s3->lock_days */
	bool bucket_lock;  /* the new bucket can protect objects */
	bool md5;          /* send the MD5 of the body */
	struct repo_request request;
	struct repo_answer answer;
	bool clock_set; /* the server's clock was adopted once */
	bool sent_md5;  /* the last attempt had it, if it had a body */
};

/* Signs and sends the request, and retries it; returns an error for an
 * unsuccessful status.
 *
 * CAIRN_EXISTS         `if_absent`, and the object exists
 * CAIRN_UNIMPLEMENTED  `if_absent`, and the server does not support conditional writes
 */
int s3_call(struct s3_call *call, struct cairn_err *err);

/* The key of a file; owned by the caller. NULL when memory is short. */
char *s3_key_of(const struct s3 *s3, enum repo_file kind, const struct repo_id *name);

/* An instant in whole seconds, in S3's format. Returns `out`. */
const char *s3_until(int64_t seconds, char out[REPO_INSTANT_TEXT_MAX]);

/* Object lock; slots of repo_store_ops. */
int s3_protect(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
	       int64_t until, struct cairn_err *err);
int s3_protected_until(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t *ret, struct cairn_err *err);

/* Uploads in parts. */
int s3_put_parts(struct s3 *s3, const char *key, const void *data, size_t n, struct cairn_err *err);

#endif
