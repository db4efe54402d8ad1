/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/names_impl.h"

#include "base/err.h"
#include "base/mem.h"
#include "kube/digest.h"
#include "kube/kube_resource.h"
#include "kube/kube_snapshot.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "sidecar/secret.h"
#include "sidecar/snapshot_node.h"

#define CLASSES_MAX 1024U

#define NOTED_SECRET    "snapshot.storage.kubernetes.io/deletion-secret-name"
#define NOTED_SECRET_NS "snapshot.storage.kubernetes.io/deletion-secret-namespace"

int sidecar_resolve_new(const struct sidecar_resolve_options *options, struct sidecar_resolve **ret,
			struct cairn_err *err)
{
	cairn_cleanup(sidecar_resolve_freep) struct sidecar_resolve *names =
		cairn_calloc(1, sizeof(*names));
	struct kube_cache_options cache = {
		.entries_max = SIDECAR_NAMES_ENTRIES_MAX,
		.keep_ms = options->keep_ms,
		.refusal_ms = options->refusal_ms,
	};
	int rc;

	if (!names)
		return cairn_err_nomem(err, "names");
	names->kube = options->kube;
	names->nodes = options->nodes;
	atomic_flag_clear(&names->told_blind);
	rc = kube_cache_new(&cache, &names->snapshots, err);
	cache.entries_max = CLASSES_MAX;
	if (!rc)
		rc = kube_cache_new(&cache, &names->classes, err);
	if (rc)
		return rc;
	*ret = cairn_take(names);
	return 0;
}

void sidecar_resolve_free(struct sidecar_resolve *names)
{
	if (!names)
		return;
	kube_cache_free(names->snapshots);
	kube_cache_free(names->classes);
	free(names);
}

void sidecar_resolve_sweep(struct sidecar_resolve *names)
{
	kube_cache_sweep(names->snapshots);
	kube_cache_sweep(names->classes);
}

void sidecar_resolve_stats(struct sidecar_resolve *names, struct kube_cache_stats *ret)
{
	kube_cache_stats(names->snapshots, ret);
}

static void snapshot_destroy(struct kube_value *value)
{
	struct sidecar_snapshot *s = (struct sidecar_snapshot *)value;

	sidecar_secret_free(s->secret);
	free(s->used_secret_ns);
	free(s->used_secret);
	free(s->class_name);
	free(s->node);
	free(s->volume);
	free(s->handle);
	free(s->content);
	free(s->name);
	free(s->ns);
	free(s);
}

/* Returns true when memory is short. */
static bool resolve_copy(char **to, const char *text)
{
	*to = text ? cairn_strdup(text) : NULL;
	return text && !*to;
}

int sidecar_read_failed(int rc, struct cairn_err *err)
{
	int code = rc;

	/* Forbidden, malformed or unknown kind: the caller cannot fix any of these. */
	if (rc != CAIRN_NOT_FOUND && rc != CAIRN_UNAVAILABLE && rc != CAIRN_NO_SPACE &&
	    rc != CAIRN_CANCELLED && rc != CAIRN_DEADLINE)
		code = CAIRN_INTERNAL;
	return cairn_err_recode(err, code);
}

struct question {
	struct sidecar_resolve *names;
	const char *driver;
	const char *ns;
	const char *name;
	const struct kube_wait *wait;
};

static int resolve_read_object(void *arg, const struct kube_ref *ref, json_t **ret,
			       struct cairn_err *err)
{
	const struct question *q = arg;
	const struct sidecar_kube *kube = &q->names->kube;
	int rc = kube->ops->get(kube->self, ref, q->wait, ret, err);

	if (!rc)
		return 0;
	if (ref->ns)
		cairn_err_wrap(err, "failed to get %s '%s/%s'", ref->resource->kind, ref->ns,
			       ref->name);
	else
		cairn_err_wrap(err, "failed to get %s '%s'", ref->resource->kind, ref->name);
	return sidecar_read_failed(rc, err);
}

static int resolve_make_snapshot(const struct question *q, const struct kube_snapshot *of,
				 struct sidecar_snapshot **ret, struct cairn_err *err)
{
	kube_auto_value struct sidecar_snapshot *s = cairn_calloc(1, sizeof(*s));

	if (!s)
		return cairn_err_nomem(err, "snapshot");
	kube_value_init(&s->value, snapshot_destroy);
	if (resolve_copy(&s->ns, q->ns) || resolve_copy(&s->name, q->name) ||
	    resolve_copy(&s->content, kube_name(of->content)) ||
	    resolve_copy(&s->handle, of->handle) || resolve_copy(&s->volume, of->volume_handle) ||
	    resolve_copy(&s->class_name,
			 kube_str(of->snapshot, "spec", "volumeSnapshotClassName")) ||
	    resolve_copy(&s->used_secret, kube_annotation(of->content, NOTED_SECRET)) ||
	    resolve_copy(&s->used_secret_ns, kube_annotation(of->content, NOTED_SECRET_NS)))
		return cairn_err_nomem(err, "snapshot");
	*ret = cairn_take(s);
	return 0;
}

static int resolve_ask(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		       uint64_t *until_ns, struct cairn_err *err)
{
	struct question *q = arg;
	kube_auto_value struct sidecar_snapshot *found = NULL;
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot of = {0};
	const struct kube_snapshot_query query = {.ns = q->ns,
						  .name = q->name,
						  .driver = q->driver,
						  .get = resolve_read_object,
						  .arg = q};
	int rc;

	(void)until_ns;
	q->wait = wait;
	rc = kube_snapshot_resolve(&query, &of, err);
	if (!rc)
		rc = resolve_make_snapshot(q, &of, &found, err);
	if (!rc && q->names->nodes)
		rc = sidecar_snapshot_node(&q->names->kube, q->ns, &of, wait, &found->node, err);
	if (!rc)
		rc = sidecar_secret_find(q->names, q->driver, found, wait, &found->secret, err);
	if (rc)
		return rc;
	*ret = &cairn_take(found)->value;
	return 0;
}

int sidecar_resolve_find(struct sidecar_resolve *names, const char *driver, const char *ns,
			 const char *name, const struct kube_wait *wait,
			 struct sidecar_snapshot **ret, struct cairn_err *err)
{
	struct question q = {.names = names, .driver = driver, .ns = ns, .name = name};
	struct kube_digest key = kube_digest_of("snapshot", driver, ns, name, NULL);
	struct kube_value *value;
	int rc = kube_cache_get(names->snapshots, &key, resolve_ask, &q, wait, &value, err);

	if (rc)
		return rc;
	*ret = (struct sidecar_snapshot *)(void *)value;
	return 0;
}
