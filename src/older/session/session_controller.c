/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/session_controller_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "older/session/request_validate.h"
#include "older/session/settings.h"

#define WORKERS 4U

/* Keys of the queue are object keys, prefixed with a letter for the kind. */
#define KEY_REQUEST 'R'
#define KEY_DATA    'D'

static void add_key(struct session_controller *c, char kind, const json_t *object)
{
	char key[KUBE_KEY_MAX];
	char name[KUBE_KEY_MAX];

	if (!kube_key(object, name) || strlen(name) + 2 > sizeof(key))
		return;
	key[0] = kind;
	memcpy(key + 1, name, strlen(name) + 1);
	kube_controller_add(c->common, key);
}

static void session_controller_add_all(struct session_controller *c, struct kube_informer *informer,
				       char kind)
{
	json_t **found = NULL;
	size_t n = 0;

	if (kube_informer_list(informer, &found, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		add_key(c, kind, found[i]);
	kube_objects_free(found, n);
}

/* ---- events ------------------------------------------------------------- */

/* Data whose request was deleted is deleted too. */
static void on_request(void *arg, const json_t *old, const json_t *now)
{
	struct session_controller *c = arg;
	json_t **found = NULL;
	size_t n = 0;

	if (now) {
		add_key(c, KEY_REQUEST, now);
		return;
	}
	if (kube_informer_find(c->data, SESSION_BY_REQUEST, kube_uid(old), &found, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		add_key(c, KEY_DATA, found[i]);
	kube_objects_free(found, n);
}

static void session_controller_on_data(void *arg, const json_t *old, const json_t *now)
{
	(void)old;
	if (now)
		add_key(arg, KEY_DATA, now);
}

/* Requests that failed or wait for want of this configuration, or because there was one too
 * many, are processed again. */
static void on_configuration(void *arg, const json_t *old, const json_t *now)
{
	struct session_controller *c = arg;

	(void)old;
	(void)now;
	session_controller_add_all(c, c->requests, KEY_REQUEST);
}

static void on_settings(void *arg, const json_t *old, const json_t *now)
{
	struct session_controller *c = arg;
	struct session_settings settings;
	struct cairn_err err = {0};

	(void)old;
	if (session_settings_read(now, &settings, &err) != 0) {
		cairn_log(CAIRN_LOG_WARN, "the settings of sessions stay as they are",
			  CAIRN_STR("config_map", c->config_map), CAIRN_STR("error", err.msg));
		return;
	}
	atomic_store(&c->expiry_ms, settings.expiry_ms);
	cairn_log(CAIRN_LOG_INFO, "settings of sessions",
		  CAIRN_U64("expiry_ms", settings.expiry_ms));
}

/* ---- indexes ------------------------------------------------------------ */

static void text_of_uid(const json_t *object, void (*emit)(void *to, const char *text), void *to)
{
	emit(to, kube_uid(object));
}

static void text_of_request(const json_t *object, void (*emit)(void *to, const char *text),
			    void *to)
{
	const char *uid = kube_label(object, SESSION_UID_LABEL);

	if (uid)
		emit(to, uid);
}

static void text_of_driver(const json_t *object, void (*emit)(void *to, const char *text), void *to)
{
	const char *driver = kube_label(object, KUBE_CBT_DRIVER_LABEL);

	if (driver)
		emit(to, driver);
}

/* What only clients read, or a user may make large, is not kept. */
static void session_controller_trim_request(json_t *request)
{
	kube_informer_trim_metadata(request);
	kube_remove(request, "status", "sessionToken");
	kube_remove(request, "status", "sessionURL");
	kube_remove(request, "status", "caCert");
}

/* ---- work --------------------------------------------------------------- */

static int session_controller_look_at(void *arg, const char *key, uint64_t *ret_again_ms,
				      struct cairn_err *err)
{
	struct session_controller *c = arg;
	bool is_request = key[0] == KEY_REQUEST;
	kube_auto_json json_t *object = NULL;
	char buf[KUBE_KEY_MAX];
	const char *ns;
	const char *name;
	int rc;

	/* With an incomplete copy, data would look orphaned, and a driver unconfigured. */
	if (!session_controller_is_ready(c)) {
		*ret_again_ms = 0;
		return 0;
	}
	kube_key_split(key + 1, buf, &ns, &name);
	object = kube_informer_get(is_request ? c->requests : c->data, ns, name);
	if (!object)
		return 0;
	rc = is_request ? session_request_look(c, object, ret_again_ms, err)
			: session_data_look(c, object, ret_again_ms, err);
	/* Deleted or changed: an event will follow. */
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

/* The names of data are tokens, so they are not logged. */
static void session_controller_tell_error(void *arg, const char *key, const struct cairn_err *err)
{
	struct session_controller *c = arg;
	bool is_request = key[0] == KEY_REQUEST;

	atomic_fetch_add(&c->errors, 1);
	cairn_log(CAIRN_LOG_WARN, "a session waits",
		  CAIRN_STR("request", is_request ? key + 1 : "(its data)"),
		  CAIRN_STR("error", is_request ? err->msg : cairn_code_name(err->code)));
}

void session_controller_lead(struct session_controller *c, bool leads)
{
	if (!kube_controller_lead(c->common, leads))
		return;
	session_controller_add_all(c, c->requests, KEY_REQUEST);
	session_controller_add_all(c, c->data, KEY_DATA);
}

/* ---- beginning and end -------------------------------------------------- */

static int session_controller_watch(struct session_controller *c,
				    const struct kube_informer_options *options,
				    kube_informer_handler handler, struct kube_informer **ret,
				    struct cairn_err *err)
{
	int rc = kube_informer_new(c->options.client, options, ret, err);

	if (!rc && handler)
		rc = kube_informer_add_handler(*ret, handler, c, err);
	return rc;
}

static int watch_all(struct session_controller *c, struct cairn_err *err)
{
	static const struct kube_index by_uid[] = {{SESSION_BY_UID, text_of_uid}, {NULL, NULL}};
	static const struct kube_index by_request[] = {{SESSION_BY_REQUEST, text_of_request},
						       {NULL, NULL}};
	static const struct kube_index by_driver[] = {{SESSION_DRIVER_INDEX, text_of_driver},
						      {NULL, NULL}};
	const struct kube_informer_options requests = {.resource = &kube_snapshotsessionrequests,
						       .indexes = by_uid,
						       .trim = session_controller_trim_request};
	const struct kube_informer_options data = {.resource = &kube_snapshotsessiondata,
						   .indexes = by_request};
	const struct kube_informer_options configurations = {
		.resource = &kube_snapshotservicesconfigurations, .indexes = by_driver};
	cairn_auto_free char *selector = cairn_printf("metadata.name=%s", c->config_map);
	const struct kube_informer_options settings = {
		.resource = &kube_configmaps, .ns = c->ns, .field_selector = selector};
	int rc = selector ? 0 : cairn_err_nomem(err, "controller");

	/* Data first: the handlers of requests read it. */
	if (!rc)
		rc = session_controller_watch(c, &data, session_controller_on_data, &c->data, err);
	if (!rc)
		rc = session_controller_watch(c, &requests, on_request, &c->requests, err);
	if (!rc)
		rc = session_controller_watch(c, &configurations, on_configuration,
					      &c->configurations, err);
	if (!rc)
		rc = session_controller_watch(c, &settings, on_settings, &c->settings_map, err);
	if (!rc)
		rc = kube_informer_start(c->settings_map, err);
	if (!rc)
		rc = kube_informer_start(c->configurations, err);
	if (!rc)
		rc = kube_informer_start(c->data, err);
	return rc ? rc : kube_informer_start(c->requests, err);
}

int session_controller_new(const struct session_controller_options *options,
			   struct session_controller **ret, struct cairn_err *err)
{
	cairn_cleanup(session_controller_freep) struct session_controller *c =
		cairn_calloc(1, sizeof(*c));
	const struct kube_controller_options common = {
		.workers = WORKERS,
		.elected = true,
		.look = session_controller_look_at,
		.failed = session_controller_tell_error,
		.arg = c,
	};
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controller");
	c->options = *options;
	c->ns = cairn_strdup(options->ns);
	c->config_map = cairn_strdup(options->config_map);
	atomic_store(&c->expiry_ms, SESSION_EXPIRY_DEFAULT_MS);
	if (!c->ns || !c->config_map)
		return cairn_err_nomem(err, "controller");
	rc = kube_controller_new(&common, &c->common, err);
	if (!rc)
		rc = watch_all(c, err);
	if (!rc)
		rc = kube_controller_start(c->common, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void session_controller_stop(struct session_controller *c)
{
	kube_controller_stop(c->common);
}

void session_controller_free(struct session_controller *c)
{
	if (!c)
		return;
	session_controller_stop(c);
	kube_informer_free(c->requests);
	kube_informer_free(c->data);
	kube_informer_free(c->configurations);
	kube_informer_free(c->settings_map);
	kube_controller_free(c->common);
	free(c->ns);
	free(c->config_map);
	free(c);
}

bool session_controller_is_ready(struct session_controller *c)
{
	return kube_informer_synced(c->requests) && kube_informer_synced(c->data) &&
	       kube_informer_synced(c->configurations) && kube_informer_synced(c->settings_map);
}

void session_controller_stats(struct session_controller *c, struct session_controller_stats *ret)
{
	ret->ready = atomic_load(&c->ready);
	ret->failed = atomic_load(&c->failed);
	ret->expired = atomic_load(&c->expired);
	ret->errors = atomic_load(&c->errors);
	ret->waiting = kube_controller_waiting(c->common);
}
