/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes a request of the session flavour and encodes the driver's request, in either
 * flavour. Bytes in, bytes out. */
#ifndef CAIRN_SIDECAR_SESSION_REQUEST_H
#define CAIRN_SIDECAR_SESSION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;
struct cairn_err;
struct sidecar_secret;

/* Fields that are not set are "". */
struct sidecar_session_request {
	bool delta;
	char *token; /* wiped with the request */
	char *volume;
	char *base; /* name of a VolumeSnapshot; of a delta only */
	char *target;
	uint64_t starting_offset;
	uint32_t max_results;
};

/* CAIRN_INVALID   malformed, or a field is missing
 * CAIRN_NO_SPACE  out of memory
 */
int sidecar_session_request_read(bool delta, const uint8_t *data, size_t n,
				 struct sidecar_session_request *ret, struct cairn_err *err);

/* Also a cleanup function; accepts a zeroed request. */
void sidecar_session_request_done(struct sidecar_session_request *request);

/* The driver's handles of the requested snapshots. */
struct sidecar_session_handles {
	const char *volume;
	const char *base;
	const char *target;
	const struct sidecar_secret *secret; /* for the shipped flavour; may be NULL */
};

/* Appends the request in the session flavour, including its token. */
int sidecar_session_request_pack(const struct sidecar_session_request *request,
				 const struct sidecar_session_handles *handles,
				 struct cairn_buf *out, struct cairn_err *err);

/* The same in the shipped flavour.
 *
 * CAIRN_RANGE  an offset that the shipped flavour cannot express
 */
int sidecar_session_request_translate(const struct sidecar_session_request *request,
				      const struct sidecar_session_handles *handles,
				      struct cairn_buf *out, struct cairn_err *err);

#endif
