/* SPDX-License-Identifier: Apache-2.0 */

/* Decides about one DifferentialSnapshot. */
#ifndef CAIRN_DIFFSNAP_VERDICT_H
#define CAIRN_DIFFSNAP_VERDICT_H

#include <jansson.h>

#include "base/err.h"

struct diffsnap_driver;
struct diffsnap_resource;
struct kube_call;
struct kube_client;

enum diffsnap_state {
	DIFFSNAP_FOREIGN, /* belongs to another driver: ignore it */
	DIFFSNAP_PENDING,
	DIFFSNAP_SUCCESS,
	DIFFSNAP_FAILURE,
};

/* "Pending", "Success", "Failure". */
const char *diffsnap_state_name(enum diffsnap_state state);

struct diffsnap_verdict {
	enum diffsnap_state state;
	struct diffsnap_resource *resource; /* for a success; the caller's reference */
	struct cairn_err why;               /* for pending and failure */
};

/* Examines the object. Fails if the API server or the driver cannot be reached; everything
 * else is a verdict. */
int diffsnap_judge(struct kube_client *client, struct diffsnap_driver *driver, const json_t *object,
		   const struct kube_call *how, struct diffsnap_verdict *ret,
		   struct cairn_err *err);

/* The same for two names, without an object; `base` may be "". */
struct diffsnap_wish {
	const char *ns;
	const char *base;
	const char *target;
	const char *base_handle; /* handle to use if the base's object is gone; or NULL */
	const char *volume_id;
	const char *mode;
	const char *start_offset;
	const json_t *parameters;
};

int diffsnap_judge_wish(struct kube_client *client, struct diffsnap_driver *driver,
			const struct diffsnap_wish *wish, const struct kube_call *how,
			struct diffsnap_verdict *ret, struct cairn_err *err);

#endif
