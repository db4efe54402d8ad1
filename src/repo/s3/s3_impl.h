/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of this directory share. */
#ifndef CAIRN_REPO_S3_S3_IMPL_H
#define CAIRN_REPO_S3_S3_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/http.h"
#include "repo/instant.h"
#include "repo/s3/sign.h"
#include "repo/store.h"

#define S3_PART_SIZE ((uint64_t)64 << 20)
#define S3_PART_MIN  ((uint64_t)5 << 20) /* S3 takes no smaller one but the last */
#define S3_PARTS_MAX 10000
#define S3_XML_MAX   ((size_t)16 << 20)

/* Nobody can take the other mode's protection away either, but those who may bypass it. */
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
	uint64_t lock_days; /* new objects but locks are protected so long; 0: they are not */
	atomic_int_fast64_t clock_offset; /* of the server, in seconds */
	atomic_bool wants_md5;            /* the server refused a body without Content-MD5 */
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
	bool lock;         /* the new object is protected for s3->lock_days */
	bool bucket_lock;  /* the new bucket can protect objects */
	bool md5;          /* send the MD5 of the body */
	struct repo_request request;
	struct repo_answer answer;
	bool clock_set; /* the server's clock was taken once */
	bool sent_md5;  /* the last try had it, if it had a body */
};

/* Signs, sends, and tries again; the error for a bad status.
 *
 * CAIRN_EXISTS         `if_absent`, and there is an object
 * CAIRN_UNIMPLEMENTED  `if_absent`, and the server has no conditional writes
 */
int s3_call(struct s3_call *call, struct cairn_err *err);

/* The key of a file; the caller's. NULL when memory is short. */
char *s3_key_of(const struct s3 *s3, enum repo_file kind, const struct repo_id *name);

/* An instant in whole seconds, as S3 wants it. Returns `out`. */
const char *s3_until(int64_t seconds, char out[REPO_INSTANT_TEXT_MAX]);

/* Object lock; slots of repo_store_ops. */
int s3_protect(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
	       int64_t until, struct cairn_err *err);
int s3_protected_until(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t *ret, struct cairn_err *err);

/* Uploads in parts. */
int s3_put_parts(struct s3 *s3, const char *key, const void *data, size_t n, struct cairn_err *err);

#endif
