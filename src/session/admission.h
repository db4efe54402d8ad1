/* SPDX-License-Identifier: Apache-2.0 */

/* AdmissionReview: what an API server asks a webhook, and the answer. Bytes in,
 * bytes out. */
#ifndef CAIRN_SESSION_ADMISSION_H
#define CAIRN_SESSION_ADMISSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

/* Names of snapshots that a request may list; the CRD has the same limit. */
#define SESSION_SNAPSHOTS_MAX 256U

/* Texts and trees are borrowed from `review`. */
struct session_admission {
	const char *uid;
	const char *ns;
	const json_t *user; /* UserInfo of who wants it */
	const char *snapshots[SESSION_SNAPSHOTS_MAX];
	size_t n_snapshots;
	json_t *review;
};

/* Reads a review of the creation of a SnapshotSessionRequest.
 *
 * CAIRN_INVALID   it is none: another kind, operation or form
 * CAIRN_NO_SPACE  out of memory
 */
int session_admission_parse(const char *body, size_t n, struct session_admission *ret,
			    struct cairn_err *err);
void session_admission_done(struct session_admission *admission);

/* The answer as text (free()); `message` only where it says no. NULL when memory
 * is short. */
char *session_admission_answer(const char *uid, bool allowed, int http_code, const char *message);

#endif
