/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "sidecar_world.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "kube/auth.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define KEY_MAX 600

const struct kube_wait world_patience = {.deadline_ns = UINT64_MAX};

static const char *key_of(const char *a, const char *b, const char *c, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "%s/%s/%s", a, b ? b : "", c);
	return out;
}

void world_init(struct sidecar_world *world)
{
	memset(world, 0, sizeof(*world));
	pthread_mutex_init(&world->lock, NULL);
	world->objects = json_object();
	world->tokens = json_object();
	world->rights = json_object();
	world_put(world, "snapshotmetadataservices", NULL, WORLD_DRIVER,
		  "{'spec': {'audience': 'aud', 'address': 'a:1', 'caCert': ''}}");
}

void world_done(struct sidecar_world *world)
{
	json_decref(world->objects);
	json_decref(world->tokens);
	json_decref(world->rights);
	pthread_mutex_destroy(&world->lock);
}

void world_put(struct sidecar_world *world, const char *plural, const char *ns, const char *name,
	       const char *text)
{
	char copy[4096];
	char key[KEY_MAX];
	json_error_t why;
	json_t *object;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	object = json_loads(copy, 0, &why);
	if (!object)
		fail_msg("%s: %s", why.text, copy);
	if (!json_object_get(object, "metadata"))
		json_object_set_new(object, "metadata", json_object());
	json_object_set_new(json_object_get(object, "metadata"), "name", json_string(name));
	if (ns)
		json_object_set_new(json_object_get(object, "metadata"), "namespace",
				    json_string(ns));
	cairn_scoped_lock(&world->lock);
	json_object_set_new(world->objects, key_of(plural, ns, name, key), object);
}

void world_remove(struct sidecar_world *world, const char *plural, const char *ns, const char *name)
{
	char key[KEY_MAX];

	cairn_scoped_lock(&world->lock);
	assert_int_equal(json_object_del(world->objects, key_of(plural, ns, name, key)), 0);
}

void world_token(struct sidecar_world *world, const char *token, const char *audience,
		 const char *user)
{
	cairn_scoped_lock(&world->lock);
	json_object_set_new(world->tokens, token,
			    json_pack("{s:s, s:{s:s, s:s, s:[s]}}", "audience", audience, "user",
				      "username", user, "uid", "u-1", "groups",
				      "system:authenticated"));
}

void world_forget_token(struct sidecar_world *world, const char *token)
{
	cairn_scoped_lock(&world->lock);
	json_object_del(world->tokens, token);
}

void world_allow(struct sidecar_world *world, const char *user, const char *ns, const char *name)
{
	char key[KEY_MAX];

	cairn_scoped_lock(&world->lock);
	json_object_set_new(world->rights, key_of(user, ns, name, key), json_true());
}

void world_forbid(struct sidecar_world *world, const char *user, const char *ns, const char *name)
{
	char key[KEY_MAX];

	cairn_scoped_lock(&world->lock);
	json_object_del(world->rights, key_of(user, ns, name, key));
}

void world_snapshot(struct sidecar_world *world, const char *ns, const char *name)
{
	char text[1024];
	char content[128];

	snprintf(content, sizeof(content), "c-%s", name);
	snprintf(text, sizeof(text),
		 "{'metadata': {'uid': 'uid-%s'}, 'spec': {'volumeSnapshotClassName': 'plain'},"
		 " 'status': {'readyToUse': true, 'boundVolumeSnapshotContentName': '%s'}}",
		 name, content);
	world_put(world, "volumesnapshots", ns, name, text);
	snprintf(text, sizeof(text),
		 "{'spec': {'driver': '" WORLD_DRIVER "', 'source': {'volumeHandle': 'vol'},"
		 " 'volumeSnapshotRef': {'namespace': '%s', 'name': '%s', 'uid': 'uid-%s'}},"
		 " 'status': {'readyToUse': true, 'snapshotHandle': 'h-%s'}}",
		 ns, name, name, name);
	world_put(world, "volumesnapshotcontents", NULL, content, text);
	world_put(world, "volumesnapshotclasses", NULL, "plain",
		  "{'driver': '" WORLD_DRIVER "', 'parameters': {'pool': 'x'}}");
}

unsigned world_questions(struct sidecar_world *world)
{
	return world->token_reviews + world->access_reviews + world->gets + world->lists +
	       world->looks;
}

/* --- the table --- */

static int begin(struct sidecar_world *world, const struct kube_wait *wait, struct cairn_err *err)
{
	for (unsigned ms = 0; ms < world->delay_ms; ms += 5) {
		if (kube_wait_check(wait, err) != 0)
			return err->code;
		cairn_sleep_ms(5);
	}
	if (world->fail)
		return cairn_err_set(err, world->fail, "made to fail");
	return 0;
}

static int review_token(void *self, const char *token, const char *audience,
			const struct kube_wait *wait, json_t **ret_user, struct cairn_err *err)
{
	struct sidecar_world *world = self;
	const json_t *known;
	int rc;

	world->token_reviews++;
	rc = begin(world, wait, err);
	if (rc)
		return rc;
	cairn_scoped_lock(&world->lock);
	known = json_object_get(world->tokens, token);
	if (!known || strcmp(kube_str(known, "audience"), audience) != 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "no");
	*ret_user = json_incref(kube_at(known, "user"));
	return 0;
}

static int review_access(void *self, const json_t *user, const struct kube_access *what,
			 const struct kube_wait *wait, struct kube_access_answer *ret,
			 struct cairn_err *err)
{
	struct sidecar_world *world = self;
	const char *who = kube_str(user, "username");
	char key[KEY_MAX];
	int rc;

	world->access_reviews++;
	rc = begin(world, wait, err);
	if (rc)
		return rc;
	assert_string_equal(what->verb, "get");
	assert_string_equal(what->group, "snapshot.storage.k8s.io");
	assert_string_equal(what->resource, "volumesnapshots");
	assert_non_null(what->name);
	cairn_scoped_lock(&world->lock);
	ret->allowed = json_object_get(world->rights, key_of(who, what->ns, what->name, key)) ||
		       json_object_get(world->rights, key_of(who, what->ns, "*", key));
	snprintf(ret->reason, sizeof(ret->reason), "%s", ret->allowed ? "" : "no rule");
	return 0;
}

static int get(void *self, const struct kube_ref *ref, const struct kube_wait *wait, json_t **ret,
	       struct cairn_err *err)
{
	struct sidecar_world *world = self;
	char key[KEY_MAX];
	json_t *found;
	int rc;

	world->gets++;
	rc = begin(world, wait, err);
	if (rc)
		return rc;
	cairn_scoped_lock(&world->lock);
	if (world->no_class && strcmp(ref->resource->plural, "volumesnapshotclasses") == 0)
		return cairn_err_set(err, CAIRN_DENIED, "forbidden");
	found = json_object_get(world->objects,
				key_of(ref->resource->plural, ref->ns, ref->name, key));
	if (!found)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "'%s' not found", ref->name);
	*ret = json_deep_copy(found);
	return 0;
}

static json_t *all_of(struct sidecar_world *world, const char *plural)
{
	json_t *items = json_array();
	size_t n = strlen(plural);
	const char *key;
	json_t *object;

	json_object_foreach(world->objects, key,
			    object) if (strncmp(key, plural, n) == 0 && key[n] == '/')
		json_array_append_new(items, json_deep_copy(object));
	return items;
}

static int list(void *self, const struct kube_resource *resource, const struct kube_wait *wait,
		json_t **ret, struct cairn_err *err)
{
	struct sidecar_world *world = self;
	int rc;

	world->lists++;
	rc = begin(world, wait, err);
	if (rc)
		return rc;
	cairn_scoped_lock(&world->lock);
	*ret = json_pack("{s:o}", "items", all_of(world, resource->plural));
	return 0;
}

static int contents_of(void *self, const char *driver, const char *handle, bool sure,
		       const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	struct sidecar_world *world = self;
	json_t *all;
	json_t *content;
	size_t i;
	int rc;

	(void)sure;
	world->looks++;
	rc = begin(world, wait, err);
	if (!rc && world->blind)
		rc = cairn_err_set(err, CAIRN_DENIED, "forbidden");
	if (rc)
		return rc;
	cairn_scoped_lock(&world->lock);
	*ret = json_array();
	all = all_of(world, "volumesnapshotcontents");
	json_array_foreach(all, i, content)
	{
		const char *has = kube_str(content, "status", "snapshotHandle");

		if (has && strcmp(has, handle) == 0 &&
		    strcmp(kube_str(content, "spec", "driver"), driver) == 0)
			json_array_append(*ret, content);
	}
	json_decref(all);
	return 0;
}

static const struct sidecar_kube_ops ops = {
	.review_token = review_token,
	.review_access = review_access,
	.get = get,
	.list = list,
	.contents_of = contents_of,
};

struct sidecar_kube world_table(struct sidecar_world *world)
{
	return (struct sidecar_kube){.ops = &ops, .self = world};
}
