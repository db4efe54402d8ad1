/* SPDX-License-Identifier: Apache-2.0 */

/* Somebody whose token was good. */
#ifndef CAIRN_SIDECAR_USER_H
#define CAIRN_SIDECAR_USER_H

#include <jansson.h>

#include "sidecar/key.h"
#include "sidecar/value.h"

struct cairn_err;

struct sidecar_user {
	struct sidecar_value value;
	json_t *info;           /* UserInfo: username, uid, groups, extra */
	const char *name;       /* in it; "" when it has none */
	struct sidecar_key key; /* of all of it: what a right may depend on */
	struct sidecar_key who; /* of name and uid: whose streams are counted together */
};

/* Takes its own reference of `info`. */
int sidecar_user_new(json_t *info, struct sidecar_user **ret, struct cairn_err *err);

#endif
