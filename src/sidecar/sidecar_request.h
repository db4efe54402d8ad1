/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes a caller's request and encodes the driver's request. Bytes in, bytes out. */
#ifndef CAIRN_SIDECAR_REQUEST_H
#define CAIRN_SIDECAR_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;
struct cairn_err;
struct sidecar_secret;

/* Limit of a request; a token has a few KiB. */
#define SIDECAR_REQUEST_MAX (64U << 10)

/* Limits of a token and of a handle; longer ones are invalid. */
#define SIDECAR_TOKEN_MAX  (32U << 10)
#define SIDECAR_HANDLE_MAX 4096U

/* Both kinds of requests; fields that are not set are "". */
struct sidecar_request {
	bool delta;
	char *token; /* wiped with the request */
	char *ns;
	char *base; /* handle; of a delta only */
	char *snapshot;
	int64_t starting_offset;
	int32_t max_results;
};

/* Decodes and checks a request.
 *
 * CAIRN_INVALID   malformed, a field is missing or not a valid name, or
 *                 max_results is negative
 * CAIRN_RANGE     starting_offset is negative
 * CAIRN_NO_SPACE  out of memory
 */
int sidecar_request_read(bool delta, const uint8_t *data, size_t n, struct sidecar_request *ret,
			 struct cairn_err *err);

/* Also a cleanup function; accepts a zeroed request. */
void sidecar_request_done(struct sidecar_request *request);

/* Appends the encoded CSI request. `secret` may be NULL. */
int sidecar_request_pack(const struct sidecar_request *request, const char *handle,
			 const struct sidecar_secret *secret, struct cairn_buf *out,
			 struct cairn_err *err);

/* Names of snapshots in a CSI request, for a log; truncated, "" if there is none. Nothing else
 * of the request is copied: it may have secrets. */
struct sidecar_request_handles {
	char base[SIDECAR_HANDLE_MAX + 1];
	char target[SIDECAR_HANDLE_MAX + 1];
};

void sidecar_request_handles(bool delta, const uint8_t *data, size_t n,
			     struct sidecar_request_handles *ret);

#endif
