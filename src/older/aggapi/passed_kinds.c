/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/passed_kinds.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "base/wait.h"
#include "kube/digest.h"
#include "kube/kinds.h"
#include "kube/kube_cache.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/value.h"
#include "older/aggapi/openapi_rename.h"
#include "older/aggapi/path.h"

/* How often the kinds are looked at, and how often their OpenAPI documents are read, which
 * are larger, unless the kinds have changed. */
#define LOOK_MS    5000U
#define OPENAPI_MS 300000U
#define READ_MS    15000U

/* All kinds of a version come from one document. */
static const struct kube_resource *const passed[] = {
	&kube_differentialsnapshots,          &kube_driverdiscoveries,
	&kube_snapshotsessionrequests,        &kube_snapshotsessiondata,
	&kube_snapshotservicesconfigurations, &kube_snapshotmetadataservices,
};

#define N_PASSED (sizeof(passed) / sizeof(passed[0]))

static const char *const versions[] = {KUBE_CBT_VERSION, "v1beta1"};

struct aggapi_kinds {
	struct kube_client *client;
	struct kube_cache *lists;
	struct cairn_ticker ticker;
	json_t *known; /* used only by the ticker: the kinds when `document` was read */
	uint64_t due_ns;
	pthread_mutex_t lock;
	json_t *document; /* guarded by lock; NULL until it was read */
};

struct held {
	struct kube_value value;
	json_t *json;
};

const struct kube_resource *aggapi_passed_kind(const char *plural)
{
	for (size_t i = 0; i < N_PASSED; i++)
		if (strcmp(passed[i]->plural, plural) == 0)
			return passed[i];
	return NULL;
}

static void held_destroy(struct kube_value *value)
{
	struct held *held = (struct held *)(void *)value;

	json_decref(held->json);
	free(held);
}

static int hold(json_t *json, struct kube_value **ret, struct cairn_err *err)
{
	struct held *held = json ? cairn_calloc(1, sizeof(*held)) : NULL;

	if (!held) {
		json_decref(json);
		return cairn_err_nomem(err, "kinds");
	}
	kube_value_init(&held->value, held_destroy);
	held->json = json;
	*ret = &held->value;
	return 0;
}

/* Reads a document; *ret stays NULL if the server does not have it. */
static int read_document(struct aggapi_kinds *kinds, const char *path, const struct kube_wait *wait,
			 json_t **ret, struct cairn_err *err)
{
	struct kube_call how = kube_wait_call(wait);
	cairn_auto_free char *text = NULL;
	size_t n = 0;
	int rc = kube_get_raw(kinds->client, path, &how, &text, &n, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (!rc)
		rc = kube_json_parse(text, n, ret, err);
	return rc == CAIRN_INVALID
		       ? cairn_err_set(err, CAIRN_INTERNAL, "the API server's answer is not JSON")
		       : rc;
}

/* True for "PLURAL" and "PLURAL/status" of a kind that is stored at this version. */
static bool is_passed(const char *name, const char *version)
{
	char plural[AGGAPI_NAMESPACE_MAX];
	const struct kube_resource *kind;

	snprintf(plural, sizeof(plural), "%.*s", (int)strcspn(name, "/"), name);
	kind = aggapi_passed_kind(plural);
	return kind && strcmp(kind->version, version) == 0;
}

static int add_kinds(json_t *all, const json_t *list, const char *version, struct cairn_err *err)
{
	json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(list, "resources"), i, entry)
	{
		const char *name = kube_str(entry, "name");

		if (!name || !is_passed(name, version))
			continue;
		json_object_del(entry, "storageVersionHash");
		if (json_array_append(all, entry) < 0)
			return cairn_err_nomem(err, "kinds");
	}
	return 0;
}

static int ask_lists(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		     uint64_t *until_ns, struct cairn_err *err)
{
	kube_auto_json json_t *all = json_array();
	int rc = all ? 0 : cairn_err_nomem(err, "kinds");

	(void)until_ns;
	for (size_t i = 0; !rc && i < sizeof(versions) / sizeof(versions[0]); i++) {
		kube_auto_json json_t *list = NULL;
		char path[128];

		snprintf(path, sizeof(path), "/apis/" AGGAPI_GROUP "/%s", versions[i]);
		rc = read_document(arg, path, wait, &list, err);
		if (!rc)
			rc = add_kinds(all, list, versions[i], err);
	}
	return rc ? rc : hold(cairn_take(all), ret, err);
}

static int read_documents(struct aggapi_kinds *kinds, const struct kube_wait *wait, json_t **ret,
			  struct cairn_err *err)
{
	kube_auto_json json_t *all =
		json_pack("{s:{}, s:{s:{}}}", "paths", "components", "schemas");
	int rc = all ? 0 : cairn_err_nomem(err, "kinds");

	for (size_t i = 0; !rc && i < sizeof(versions) / sizeof(versions[0]); i++) {
		kube_auto_json json_t *document = NULL;
		char path[128];

		snprintf(path, sizeof(path), "/openapi/v3/apis/" AGGAPI_GROUP "/%s", versions[i]);
		rc = read_document(kinds, path, wait, &document, err);
		if (!rc && document)
			rc = aggapi_openapi_rename(document, versions[i], is_passed, all, err);
	}
	if (!rc)
		*ret = cairn_take(all);
	return rc;
}

int aggapi_kinds_list(struct aggapi_kinds *kinds, const struct kube_wait *wait, json_t **ret,
		      struct cairn_err *err)
{
	const struct kube_digest key = kube_digest_of("kinds", NULL);
	struct kube_value *value = NULL;
	int rc = kube_cache_get(kinds->lists, &key, ask_lists, kinds, wait, &value, err);

	if (rc)
		return rc;
	*ret = json_incref(((struct held *)(void *)value)->json);
	kube_value_unref(value);
	return 0;
}

/* The documents are read ahead of requests for ours: the API server holds a lock while it
 * passes such a request on, and a request for another document can wait for that lock. */
static uint64_t kinds_look(void *arg)
{
	struct aggapi_kinds *kinds = arg;
	const struct kube_wait wait = {.deadline_ns = cairn_after_ms(READ_MS)};
	kube_auto_json json_t *list = NULL, *document = NULL;
	struct cairn_err err = {0};
	json_t *old;
	int rc = aggapi_kinds_list(kinds, &wait, &list, &err);

	if (!rc && json_equal(list, kinds->known) && cairn_monotonic_ns() < kinds->due_ns)
		return LOOK_MS;
	if (!rc)
		rc = read_documents(kinds, &wait, &document, &err);
	if (rc) {
		cairn_log(CAIRN_LOG_DEBUG, "kinds cannot be read", CAIRN_STR("error", err.msg));
		return LOOK_MS;
	}
	json_decref(kinds->known);
	kinds->known = cairn_take(list);
	kinds->due_ns = cairn_after_ms(OPENAPI_MS);
	pthread_mutex_lock(&kinds->lock);
	old = kinds->document;
	kinds->document = cairn_take(document);
	pthread_mutex_unlock(&kinds->lock);
	json_decref(old);
	return LOOK_MS;
}

int aggapi_kinds_new(struct kube_client *client, struct aggapi_kinds **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_kinds_freep) struct aggapi_kinds *k = cairn_calloc(1, sizeof(*k));
	const struct kube_cache_options lists = {.entries_max = 1, .keep_ms = AGGAPI_KINDS_KEEP_MS};
	int rc;

	if (!k)
		return cairn_err_nomem(err, "kinds");
	k->client = client;
	pthread_mutex_init(&k->lock, NULL);
	rc = kube_cache_new(&lists, &k->lists, err);
	if (!rc)
		rc = cairn_ticker_start(&k->ticker, "kinds", 0, kinds_look, k, err);
	if (!rc)
		*ret = cairn_take(k);
	return rc;
}

void aggapi_kinds_free(struct aggapi_kinds *kinds)
{
	cairn_ticker_stop(&kinds->ticker);
	kube_cache_free(kinds->lists);
	json_decref(kinds->known);
	json_decref(kinds->document);
	pthread_mutex_destroy(&kinds->lock);
	free(kinds);
}

json_t *aggapi_kinds_openapi(struct aggapi_kinds *kinds)
{
	cairn_scoped_lock(&kinds->lock);
	return json_incref(kinds->document);
}
