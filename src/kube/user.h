/* SPDX-License-Identifier: Apache-2.0 */

/* An authenticated user. */
#ifndef CAIRN_KUBE_USER_H
#define CAIRN_KUBE_USER_H

#include <jansson.h>

#include "kube/digest.h"
#include "kube/value.h"

struct cairn_err;

struct kube_user {
	struct kube_value value;
	json_t *info;           /* UserInfo: username, uid, groups, extra */
	const char *name;       /* from `info`; "" if it has none */
	struct kube_digest key; /* of all of `info`: permissions may depend on any part */
	struct kube_digest who; /* of name and uid: streams are counted per user */
};

/* Takes its own reference to `info`. */
int kube_user_new(json_t *info, struct kube_user **ret, struct cairn_err *err);

#endif
