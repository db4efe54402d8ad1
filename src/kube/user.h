/* SPDX-License-Identifier: Apache-2.0 */

/* Somebody whose token was good. */
#ifndef CAIRN_KUBE_USER_H
#define CAIRN_KUBE_USER_H

#include <jansson.h>

#include "kube/digest.h"
#include "kube/value.h"

struct cairn_err;

struct kube_user {
	struct kube_value value;
	json_t *info;           /* UserInfo: username, uid, groups, extra */
	const char *name;       /* in it; "" when it has none */
	struct kube_digest key; /* of all of it: what a right may depend on */
	struct kube_digest who; /* of name and uid: whose streams are counted together */
};

/* Takes its own reference of `info`. */
int kube_user_new(json_t *info, struct kube_user **ret, struct cairn_err *err);

#endif
