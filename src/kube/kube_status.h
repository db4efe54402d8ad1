/* SPDX-License-Identifier: Apache-2.0 */

/* Error answers of the server: HTTP statuses and metav1.Status. */
#ifndef CAIRN_KUBE_STATUS_H
#define CAIRN_KUBE_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct kube_status;

/* The error code for an HTTP status and a reason ("" if there is none). */
int kube_status_code(int http, const char *reason);

/* Fills `ret` (may be NULL) and `err` from a Status object; returns its code. The text is
 * the server's message. */
int kube_status_fail(const json_t *object, int http, struct kube_status *ret,
		     struct cairn_err *err);

/* The same from the body of an answer, whose format is unknown. */
int kube_status_fail_body(const char *body, size_t n, int http, struct kube_status *ret,
			  struct cairn_err *err);

/* True for a metav1.Status. */
bool kube_status_is(const json_t *object);

#endif
