/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP requests for stores, on persistent connections.
 *
 * A request blocks its thread; any number of threads may make requests.
 * Transient failures are CAIRN_UNAVAILABLE, and repo_http_retry() retries them
 * with increasing pauses. URLs may contain passwords and are never part of a
 * message.
 */
#ifndef CAIRN_REPO_HTTP_H
#define CAIRN_REPO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct cairn_buf;
struct repo_http;
struct repo_store_options;

#define REPO_HTTP_RETRY_MS    ((uint64_t)15 * 60 * 1000)
#define REPO_HTTP_STALL_MS    ((uint64_t)60 * 1000)
#define REPO_HTTP_CONNECT_MS  15000L
#define REPO_HTTP_CONNECTIONS 8     /* requests at a time */
#define REPO_HTTP_ERROR_MAX   16384 /* maximum kept of an error response */

struct repo_request {
	const char *method;
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; or NULL */
	const void *body;           /* NULL: none */
	size_t body_n;

	/* Destination of the body of a successful response: `out` receives
	 * exactly out_n bytes from `offset` of the object (also when the server
	 * ignores the range); otherwise `text`, up to its maximum. */
	uint8_t *out;
	size_t out_n;
	uint64_t offset;
	struct cairn_buf *text;
};

struct repo_answer {
	long status;
	int64_t length; /* Content-Length; -1: missing */
	int64_t date;   /* of the server, seconds since 1970; 0: missing */
	char etag[160];
	bool rclone;   /* the server is rclone, whose 404 may be any failure */
	char why[192]; /* the beginning of an error response, one line */
};

int repo_http_new(const struct repo_store_options *options, struct repo_http **ret,
		  struct cairn_err *err);
void repo_http_free(struct repo_http *http);
CAIRN_DEFINE_CLEANUP(struct repo_http, repo_http_free);

/* One attempt. 0 when a response arrived, whatever its status.
 *
 * CAIRN_UNAVAILABLE  no response, or a truncated one
 * CAIRN_RANGE        the file is shorter than requested, or larger
 *                    than `text` may be
 */
int repo_http_do(struct repo_http *http, const struct repo_request *request,
		 struct repo_answer *ret, struct cairn_err *err);

/* Keeps one line of an error response. */
void repo_http_keep_why(const struct cairn_buf *error, struct repo_answer *answer);

/* The error for an unsuccessful status; names the requested object. */
int repo_http_status(const struct repo_answer *answer, struct cairn_err *err);

/* Formats the header that requests `n` > 0 bytes from `offset`. Returns `out`. */
#define REPO_HTTP_RANGE_MAX 80
const char *repo_http_range(uint64_t offset, size_t n, char out[REPO_HTTP_RANGE_MAX]);

/* The length of the requested object.
 *
 * CAIRN_INTERNAL  the server did not send it
 */
int repo_http_length(const struct repo_answer *answer, uint64_t *ret, struct cairn_err *err);

/* Turns a body that was received as text into a file that the caller owns. */
int repo_http_take(struct cairn_buf *text, uint8_t **ret_data, size_t *ret_n,
		   struct cairn_err *err);

/* Calls `try` until it returns something other than CAIRN_UNAVAILABLE, or the
 * retry time has passed.
 *
 * CAIRN_CANCELLED  the last attempt failed, and the caller has cancelled
 */
int repo_http_retry(struct repo_http *http, int (*try)(void *arg, struct cairn_err *err), void *arg,
		    struct cairn_err *err);

#endif
