/* SPDX-License-Identifier: Apache-2.0 */

/* Refusals as Kubernetes words them: metav1.Status. */
#ifndef CAIRN_AGGAPI_STATUS_H
#define CAIRN_AGGAPI_STATUS_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;

/* A refusal on its way to the peer. */
struct aggapi_refusal {
	int http; /* 0: none */
	const char *reason;
	char message[512];
	char field[128];         /* of a field that is wrong, "spec.limit"; or "" */
	const char *cause;       /* "FieldValueInvalid"; with `field` */
	const char *kind, *name; /* of an object that is missing; may be NULL */
	uint64_t retry_s;        /* 0: it says nothing about when to come again */
};

/* Fill `ret` and return a negative code, so that a refusal is one statement. */
int aggapi_refuse(struct aggapi_refusal *ret, int http, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int aggapi_refuse_field(struct aggapi_refusal *ret, const char *field, const char *cause,
			const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* What an error of ours is to somebody who asks. */
int aggapi_refuse_err(struct aggapi_refusal *ret, const struct cairn_err *err);

/* The object to send; NULL when memory is short. */
json_t *aggapi_status_object(const struct aggapi_refusal *refusal);

#endif
