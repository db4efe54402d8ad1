/* SPDX-License-Identifier: Apache-2.0 */

/* AdmissionReview: decodes the API server's request to a webhook and encodes the answer.
 * Bytes in, bytes out. */
#ifndef CAIRN_SESSION_ADMISSION_H
#define CAIRN_SESSION_ADMISSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

/* Limit of the snapshots in a request; the CRD has the same limit. */
#define SESSION_SNAPSHOTS_MAX 256U

/* Strings and trees are borrowed from `review`. */
struct session_admission {
	const char *uid;
	const char *ns;
	const json_t *user; /* UserInfo of the requesting user */
	const char *snapshots[SESSION_SNAPSHOTS_MAX];
	size_t n_snapshots;
	json_t *review;
};

/* Decodes a review of the creation of a SnapshotSessionRequest.
 *
 * CAIRN_INVALID   not such a review: another kind, operation or format
 * CAIRN_NO_SPACE  out of memory
 */
int session_admission_parse(const char *body, size_t n, struct session_admission *ret,
			    struct cairn_err *err);
void session_admission_done(struct session_admission *admission);

/* Returns the answer as text (free()); `message` is used only for a rejection. NULL when
 * memory is short. */
char *session_admission_answer(const char *uid, bool allowed, int http_code, const char *message);

#endif
