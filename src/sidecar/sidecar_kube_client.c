/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_kube_client.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/reviewer.h"

/* The server sends a bookmark about every minute; a watch that is silent for longer is
 * considered stale. */
#define WATCH_SILENCE_NS (150 * CAIRN_NS_PER_SEC)

/* Timeout of a query that waits for the first list. */
#define SYNC_WAIT_MS 5000U

struct sidecar_kube_client {
	struct kube_client *client;
	struct kube_reviewer reviewer; /* of the client */
	struct kube_informer *contents;
};

/* --- contents by handle --- */

#define INDEX_KEY_MAX 5120U

static bool index_key(const char *driver, const char *handle, char out[INDEX_KEY_MAX])
{
	int n = driver && handle ? snprintf(out, INDEX_KEY_MAX, "%s\n%s", driver, handle) : -1;

	return n > 0 && n < (int)INDEX_KEY_MAX;
}

static const char *sidecar_kube_client_handle_of(const json_t *content)
{
	const char *handle = kube_str(content, "status", "snapshotHandle");

	return handle ? handle : kube_str(content, "spec", "source", "snapshotHandle");
}

static void by_handle(const json_t *content, void (*emit)(void *to, const char *text), void *to)
{
	char key[INDEX_KEY_MAX];

	if (index_key(kube_str(content, "spec", "driver"), sidecar_kube_client_handle_of(content),
		      key))
		emit(to, key);
}

/* Keeps only names, spec and the handle. */
static void sidecar_kube_client_trim(json_t *content)
{
	static const char *const metadata[] = {"managedFields", "annotations", "labels",
					       "finalizers", "ownerReferences"};
	kube_auto_json json_t *handle = json_incref(kube_at(content, "status", "snapshotHandle"));

	for (size_t i = 0; i < sizeof(metadata) / sizeof(metadata[0]); i++)
		kube_remove(content, "metadata", metadata[i]);
	kube_remove(content, "status");
	if (handle)
		kube_set(content, NULL, json_incref(handle), "status", "snapshotHandle");
}

static const struct kube_index indexes[] = {{.name = "handle", .texts = by_handle}, {.name = NULL}};

/* --- the table --- */

static int sidecar_kube_client_wanted(void *arg)
{
	return kube_wait_check(arg, NULL);
}

static int sidecar_kube_client_review_token(void *self, const char *token, const char *audience,
					    const struct kube_wait *wait, json_t **ret_user,
					    struct cairn_err *err)
{
	const struct sidecar_kube_client *c = self;

	return c->reviewer.ops->review_token(c->reviewer.self, token, audience, wait, ret_user,
					     err);
}

static int sidecar_kube_client_review_access(void *self, const json_t *user,
					     const struct kube_access *what,
					     const struct kube_wait *wait,
					     struct kube_access_answer *ret, struct cairn_err *err)
{
	const struct sidecar_kube_client *c = self;

	return c->reviewer.ops->review_access(c->reviewer.self, user, what, wait, ret, err);
}

static int sidecar_kube_client_get(void *self, const struct kube_ref *ref,
				   const struct kube_wait *wait, json_t **ret,
				   struct cairn_err *err)
{
	struct sidecar_kube_client *c = self;
	const struct kube_call call = kube_wait_call(wait);

	return kube_wait_outcome(wait, kube_get(c->client, ref, &call, ret, err), err);
}

static int sidecar_kube_client_list(void *self, const struct kube_resource *resource,
				    const struct kube_wait *wait, json_t **ret,
				    struct cairn_err *err)
{
	struct sidecar_kube_client *c = self;
	const struct kube_call call = kube_wait_call(wait);

	return kube_wait_outcome(
		wait, kube_list(c->client, KUBE_REF(resource, NULL, NULL), NULL, &call, ret, err),
		err);
}

/* Lists all contents, if the watch is stale or not permitted. */
static int contents_listed(struct sidecar_kube_client *c, const char *driver, const char *handle,
			   const struct kube_wait *wait, json_t *found, struct cairn_err *err)
{
	kube_auto_json json_t *all = NULL;
	json_t *content;
	size_t i;
	int rc = sidecar_kube_client_list(c, &kube_volumesnapshotcontents, wait, &all, err);

	if (rc)
		return rc;
	json_array_foreach(kube_at(all, "items"), i, content)
	{
		const char *of = kube_str(content, "spec", "driver");
		const char *has = sidecar_kube_client_handle_of(content);

		if (of && has && strcmp(of, driver) == 0 && strcmp(has, handle) == 0 &&
		    json_array_append(found, content) != 0)
			return cairn_err_nomem(err, "contents");
	}
	return 0;
}

/* Whether the watch is complete. Waits for one that has just started, but not for one that
 * failed before its first list, usually because of a missing permission. After a failure
 * the watch misses new objects. */
static bool watch_is_good(struct sidecar_kube_client *c, const struct kube_wait *wait)
{
	struct kube_informer_stats stats;

	kube_informer_stats(c->contents, &stats);
	if (!kube_informer_synced(c->contents) && stats.errors > 0)
		return false;
	if (kube_informer_wait_synced(c->contents, kube_wait_left_ms(wait, SYNC_WAIT_MS),
				      sidecar_kube_client_wanted, (void *)(uintptr_t)wait,
				      NULL) != 0)
		return false;
	if (!kube_informer_current(c->contents))
		return false;
	kube_informer_stats(c->contents, &stats);
	return cairn_monotonic_ns() - stats.last_contact_ns < WATCH_SILENCE_NS;
}

/* Returns 1 if the watch has the answer. */
static int contents_watched(struct sidecar_kube_client *c, const char *driver, const char *handle,
			    const struct kube_wait *wait, json_t *found, struct cairn_err *err)
{
	char key[INDEX_KEY_MAX];
	json_t **objects;
	size_t n;
	int rc;

	if (!index_key(driver, handle, key))
		return 0;
	if (!watch_is_good(c, wait))
		return kube_wait_check(wait, err);
	rc = kube_informer_find(c->contents, "handle", key, &objects, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n && !rc; i++)
		if (json_array_append(found, objects[i]) != 0)
			rc = cairn_err_nomem(err, "contents");
	kube_objects_free(objects, n);
	return rc ? rc : 1;
}

static int sidecar_kube_client_contents_of(void *self, const char *driver, const char *handle,
					   bool sure, const struct kube_wait *wait, json_t **ret,
					   struct cairn_err *err)
{
	struct sidecar_kube_client *c = self;
	kube_auto_json json_t *found = json_array();
	int rc;

	if (!found)
		return cairn_err_nomem(err, "contents");
	rc = contents_watched(c, driver, handle, wait, found, err);
	if (rc == 0 || (rc == 1 && sure && json_array_size(found) == 0))
		rc = contents_listed(c, driver, handle, wait, found, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(found);
	return 0;
}

static const struct sidecar_kube_ops ops = {
	.review_token = sidecar_kube_client_review_token,
	.review_access = sidecar_kube_client_review_access,
	.get = sidecar_kube_client_get,
	.list = sidecar_kube_client_list,
	.contents_of = sidecar_kube_client_contents_of,
};

struct kube_client *sidecar_kube_client_inner(struct sidecar_kube_client *client)
{
	return client->client;
}

struct sidecar_kube sidecar_kube_client_table(struct sidecar_kube_client *client)
{
	return (struct sidecar_kube){.ops = &ops, .self = client};
}

uint64_t sidecar_kube_client_requests(void *client)
{
	const struct sidecar_kube_client *c = client;
	struct kube_client_stats stats;

	kube_client_stats(c->client, &stats);
	return stats.requests;
}

/* --- creation --- */

static int sidecar_kube_client_reach(struct sidecar_kube_client *c,
				     const struct sidecar_kube_client_options *o,
				     struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_options where = {.kubeconfig = o->kubeconfig};
	struct kube_client_options options = {
		.user_agent = "cairn-sidecar", .qps = o->qps, .burst = o->burst};
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &options, &c->client, err);
}

int sidecar_kube_client_new(const struct sidecar_kube_client_options *options,
			    struct sidecar_kube_client **ret, struct cairn_err *err)
{
	cairn_cleanup(sidecar_kube_client_freep) struct sidecar_kube_client *c =
		cairn_calloc(1, sizeof(*c));
	struct kube_informer_options watch = {.resource = &kube_volumesnapshotcontents,
					      .indexes = indexes,
					      .trim = sidecar_kube_client_trim};
	int rc;

	if (!c)
		return cairn_err_nomem(err, "client");
	rc = sidecar_kube_client_reach(c, options, err);
	c->reviewer = kube_client_reviewer(c->client);
	if (!rc)
		rc = kube_informer_new(c->client, &watch, &c->contents, err);
	if (!rc)
		rc = kube_informer_start(c->contents, err);
	if (rc)
		return rc;
	*ret = cairn_take(c);
	return 0;
}

void sidecar_kube_client_free(struct sidecar_kube_client *client)
{
	if (!client)
		return;
	if (client->client)
		kube_client_shutdown(client->client);
	kube_informer_free(client->contents);
	kube_client_free(client->client);
	free(client);
}
