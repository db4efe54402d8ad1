/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the secret that a snapshot's driver is called with.
 *
 * The class determines it: that of the snapshot, or the driver's default class if the
 * snapshot has none, as for members of a group and pre-provisioned snapshots. If the class
 * is deleted, missing or not readable, the snapshot controller's annotation on the content
 * shows whether a secret was used, and which. */

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "kube/digest.h"
#include "kube/kube_resource.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "sidecar/names_impl.h"
#include "sidecar/secret.h"

#define PARAMETER_NAME "csi.storage.k8s.io/snapshotter-secret-name"
#define PARAMETER_NS   "csi.storage.k8s.io/snapshotter-secret-namespace"
#define IS_DEFAULT     "snapshot.storage.kubernetes.io/is-default-class"

/* The secret of a class: templates, or NULL. */
struct class_secret {
	struct kube_value value;
	char *name;
	char *ns;
};

static void names_secret_destroy(struct kube_value *value)
{
	struct class_secret *c = (struct class_secret *)value;

	free(c->ns);
	free(c->name);
	free(c);
}

static bool is_set(const char *text)
{
	return text && text[0];
}

static int names_secret_make(const json_t *class, struct kube_value **ret, struct cairn_err *err)
{
	kube_auto_value struct class_secret *c = cairn_calloc(1, sizeof(*c));
	const char *name = kube_str(class, "parameters", PARAMETER_NAME);
	const char *ns = kube_str(class, "parameters", PARAMETER_NS);

	if (!c)
		return cairn_err_nomem(err, "class");
	kube_value_init(&c->value, names_secret_destroy);
	if (is_set(name) != is_set(ns))
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "invalid snapshotter secret parameters in "
				     "VolumeSnapshotClass: '%s' names a secret without its "
				     "namespace, or the other way round",
				     kube_name(class));
	if (is_set(name)) {
		c->name = cairn_strdup(name);
		c->ns = cairn_strdup(ns);
		if (!c->name || !c->ns)
			return cairn_err_nomem(err, "class");
	}
	*ret = &cairn_take(c)->value;
	return 0;
}

struct question {
	struct sidecar_resolve *names;
	const char *driver;
	const char *class_name;
};

static int ask_class(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		     uint64_t *until_ns, struct cairn_err *err)
{
	const struct question *q = arg;
	const struct sidecar_kube *kube = &q->names->kube;
	kube_auto_json json_t *class = NULL;
	int rc = kube->ops->get(kube->self,
				KUBE_REF(&kube_volumesnapshotclasses, NULL, q->class_name), wait,
				&class, err);

	(void)until_ns;
	if (!rc)
		return names_secret_make(class, ret, err);
	cairn_err_wrap(err, "failed to get VolumeSnapshotClass '%s'", q->class_name);
	return rc == CAIRN_DENIED ? rc : sidecar_read_failed(rc, err);
}

static bool names_secret_is_default(const json_t *class, const char *driver)
{
	const char *of = kube_str(class, "driver");
	const char *mark = kube_annotation(class, IS_DEFAULT);

	return of && mark && strcmp(of, driver) == 0 && strcmp(mark, "true") == 0;
}

/* Returns the default class. If there are several, any will do if none of them has a
 * secret. NULL if there is none. */
static int choose_default(const json_t *list, const char *driver, const json_t **ret,
			  struct cairn_err *err)
{
	const json_t *found = NULL;
	bool secret = false;
	unsigned n = 0;
	size_t i;
	json_t *class;

	json_array_foreach(kube_at(list, "items"), i, class)
	{
		if (!names_secret_is_default(class, driver))
			continue;
		n++;
		found = class;
		secret = secret || is_set(kube_str(class, "parameters", PARAMETER_NAME));
	}
	if (n > 1 && secret)
		return cairn_err_set(
			err, CAIRN_INTERNAL,
			"multiple default VolumeSnapshotClasses are set for the CSI driver '%s'",
			driver);
	*ret = found;
	return 0;
}

static int ask_default(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		       uint64_t *until_ns, struct cairn_err *err)
{
	const struct question *q = arg;
	const struct sidecar_kube *kube = &q->names->kube;
	kube_auto_json json_t *list = NULL;
	const json_t *class;
	int rc = kube->ops->list(kube->self, &kube_volumesnapshotclasses, wait, &list, err);

	(void)until_ns;
	if (rc) {
		cairn_err_wrap(err, "failed to list VolumeSnapshotClasses");
		return rc == CAIRN_DENIED ? rc : sidecar_read_failed(rc, err);
	}
	rc = choose_default(list, q->driver, &class, err);
	if (rc)
		return rc;
	if (!class)
		return cairn_err_set(
			err, CAIRN_NOT_FOUND,
			"no default VolumeSnapshotClass is set for the CSI driver '%s'", q->driver);
	return names_secret_make(class, ret, err);
}

/* Returns name and namespace of the secret, owned by the caller; both NULL for none. */
static int names_secret_resolve(const struct class_secret *class,
				const struct sidecar_snapshot *snapshot, char **ret_name,
				char **ret_ns, struct cairn_err *err)
{
	struct sidecar_template with = {
		.content = snapshot->content, .ns = snapshot->ns, .name = snapshot->name};
	int rc;

	if (!class->name)
		return 0;
	rc = sidecar_template_expand(&with, class->name, ret_name, err);
	with.name = NULL;
	if (!rc)
		rc = sidecar_template_expand(&with, class->ns, ret_ns, err);
	if (!rc)
		return 0;
	cairn_err_wrap(err, "invalid snapshotter secret parameters in VolumeSnapshotClass");
	return sidecar_read_failed(rc, err);
}

/* Uses the controller's annotation if the class is not available. */
static int resolve_noted(const struct sidecar_snapshot *snapshot, char **ret_name, char **ret_ns,
			 struct cairn_err *err)
{
	if (!is_set(snapshot->used_secret) || !is_set(snapshot->used_secret_ns))
		return 0;
	*ret_name = cairn_strdup(snapshot->used_secret);
	*ret_ns = cairn_strdup(snapshot->used_secret_ns);
	return *ret_name && *ret_ns ? 0 : cairn_err_nomem(err, "secret");
}

static int names_secret_read_secret(struct sidecar_resolve *names, const char *ns, const char *name,
				    const struct kube_wait *wait, struct sidecar_secret **ret,
				    struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = names->kube.ops->get(names->kube.self, KUBE_REF(&kube_secrets, ns, name), wait,
				      &object, err);

	if (!rc)
		rc = sidecar_secret_new(object, ret, err);
	if (!rc)
		return 0;
	cairn_err_wrap(err, "failed to get credentials: secret '%s/%s'", ns, name);
	/* NOT_FOUND would mean that the snapshot does not exist. */
	return sidecar_read_failed(rc == CAIRN_NOT_FOUND ? CAIRN_INTERNAL : rc, err);
}

int sidecar_secret_find(struct sidecar_resolve *names, const char *driver,
			const struct sidecar_snapshot *snapshot, const struct kube_wait *wait,
			struct sidecar_secret **ret, struct cairn_err *err)
{
	struct question q = {.names = names, .driver = driver, .class_name = snapshot->class_name};
	bool named = is_set(snapshot->class_name);
	struct kube_digest key =
		kube_digest_of(named ? "class" : "default", named ? q.class_name : driver, NULL);
	kube_auto_value struct kube_value *class = NULL;
	cairn_auto_free char *name = NULL;
	cairn_auto_free char *ns = NULL;
	int rc = kube_cache_get(names->classes, &key, named ? ask_class : ask_default, &q, wait,
				&class, err);

	if (!rc)
		rc = names_secret_resolve((struct class_secret *)(void *)class, snapshot, &name,
					  &ns, err);
	else if (rc == CAIRN_NOT_FOUND || rc == CAIRN_DENIED)
		rc = resolve_noted(snapshot, &name, &ns, err);
	if (rc)
		return rc;
	if (err)
		*err = (struct cairn_err){0};
	return name ? names_secret_read_secret(names, ns, name, wait, ret, err) : 0;
}
