/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/user.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"

static void user_destroy(struct kube_value *value)
{
	struct kube_user *user = (struct kube_user *)value;

	json_decref(user->info);
	free(user);
}

int kube_user_new(json_t *info, struct kube_user **ret, struct cairn_err *err)
{
	cairn_auto_free char *text = json_dumps(info, JSON_COMPACT | JSON_SORT_KEYS);
	struct kube_user *user = cairn_calloc(1, sizeof(*user));
	const char *name = kube_str(info, "username");
	const char *uid = kube_str(info, "uid");

	if (!text || !user) {
		free(user);
		return cairn_err_nomem(err, "user");
	}
	kube_value_init(&user->value, user_destroy);
	user->info = json_incref(info);
	user->name = name ? name : "";
	user->key = kube_digest_of("user", text, NULL);
	user->who = kube_digest_of("who", user->name, uid ? uid : "", NULL);
	*ret = user;
	return 0;
}
