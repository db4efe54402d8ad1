/* SPDX-License-Identifier: Apache-2.0 */

/* AWS Signature Version 4, for S3: pure.
 *
 * Done here and not by libcurl, because Debian 12's 7.88 does not send the hash
 * of the body, which S3 requires. */
#ifndef CAIRN_REPO_S3_SIGN_H
#define CAIRN_REPO_S3_SIGN_H

#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

#define S3_DATE_MAX 17 /* 20130524T000000Z and a NUL */

struct s3_credentials {
	const char *access_key, *secret_key;
	const char *token; /* or NULL */
	const char *region;
};

/* The signed parts of a request. Path and query are as sent: percent-encoded,
 * parameters in ascending order, each with '='. */
struct s3_signed {
	const char *method;
	const char *host; /* with the port where it is not the scheme's own */
	const char *path;
	const char *query;   /* without '?'; "" for none */
	const char *payload; /* SHA-256 of the body in hex */
	const char *date;    /* as above */
	/* Values of further headers that the request carries, or NULL. */
	const char *bucket_lock; /* x-amz-bucket-object-lock-enabled */
	const char *lock_mode;   /* x-amz-object-lock-mode */
	const char *lock_until;  /* x-amz-object-lock-retain-until-date */
};

/* Appends the value of the Authorization header. The request must carry the
 * headers Host, x-amz-content-sha256, x-amz-date and, with a token,
 * x-amz-security-token. */
void s3_sign(const struct s3_credentials *credentials, const struct s3_signed *what,
	     struct cairn_buf *out);

const char *s3_date(int64_t seconds, char out[S3_DATE_MAX]);

/* Appends `text` percent-encoded; '/' is kept when `path`. */
void s3_encode(struct cairn_buf *out, const char *text, int path);

#endif
