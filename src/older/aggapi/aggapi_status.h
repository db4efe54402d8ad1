/* SPDX-License-Identifier: Apache-2.0 */

/* Refusals in the form of Kubernetes: metav1.Status. */
#ifndef CAIRN_AGGAPI_STATUS_H
#define CAIRN_AGGAPI_STATUS_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;

/* A refusal to be sent to the client. */
struct aggapi_refusal {
	int http; /* 0: none */
	const char *reason;
	char message[512];
	char field[128];         /* path of the invalid field, "spec.limit"; or "" */
	const char *cause;       /* "FieldValueInvalid"; with `field` */
	const char *kind, *name; /* of a missing object; may be NULL */
	uint64_t retry_s;        /* Retry-After; 0: not sent */
};

/* Fill `ret` and return a negative code, so that a refusal is one statement. */
int aggapi_refuse(struct aggapi_refusal *ret, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int aggapi_refuse_field(struct aggapi_refusal *ret, const char *field, const char *cause,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Maps an internal error to a refusal. */
int aggapi_refuse_err(struct aggapi_refusal *ret, const struct cairn_err *err);

/* The object to send; NULL when memory is short. */
json_t *aggapi_status_object(const struct aggapi_refusal *refusal);

#endif
