/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/credentials.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "kube/config_impl.h"
#include "kube/deadline.h"
#include "kube/exec_plugin.h"
#include "kube/identity.h"
#include "kube/object.h"

/* A token is renewed this long before it expires. */
#define BASIC_MAX        (64U << 10) /* "Basic" and what follows */
#define EXPIRY_MARGIN_NS (10 * CAIRN_NS_PER_SEC)

struct kube_credentials {
	const struct kube_config *config;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock */
	bool fetching;
	bool refused;
	struct kube_identity *current;
	uint64_t read_at;    /* monotonic */
	uint64_t expires_ns; /* since 1970; UINT64_MAX is never */
	uint64_t generation;
};

int kube_credentials_new(const struct kube_config *config, struct kube_credentials **ret,
			 struct cairn_err *err)
{
	struct kube_credentials *credentials = cairn_calloc(1, sizeof(*credentials));

	if (!credentials)
		return cairn_err_nomem(err, "credentials");
	credentials->config = config;
	credentials->expires_ns = UINT64_MAX;
	pthread_mutex_init(&credentials->lock, NULL);
	cairn_cond_init(&credentials->changed);
	*ret = credentials;
	return 0;
}

void kube_credentials_free(struct kube_credentials *credentials)
{
	if (!credentials)
		return;
	kube_identity_unref(credentials->current);
	pthread_cond_destroy(&credentials->changed);
	pthread_mutex_destroy(&credentials->lock);
	free(credentials);
}

static bool has_files(const struct kube_config *config)
{
	return config->ca.file || config->cert.file || config->key.file || config->token.file;
}

/* Reads the file, or copies the bytes of the configuration; having neither is not an
 * error. */
static int read_material(const struct kube_material *from, char **ret, struct cairn_err *err)
{
	size_t n;
	int rc;

	if (from->file) {
		rc = cairn_file_read(AT_FDCWD, from->file, KUBE_CREDENTIALS_MAX, ret, &n, err);
		if (rc != CAIRN_NOT_FOUND || !from->data)
			return rc;
	}
	if (!from->data)
		return 0;
	*ret = cairn_strdup(from->data);
	return *ret ? 0 : cairn_err_nomem(err, "credentials");
}

static void credentials_trim(char *text)
{
	size_t n = text ? strlen(text) : 0;

	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
}

static int credentials_read_all(const struct kube_config *config, struct kube_identity *identity,
				struct cairn_err *err)
{
	int rc = read_material(&config->ca, &identity->ca, err);

	if (!rc)
		rc = read_material(&config->cert, &identity->cert, err);
	if (!rc)
		rc = read_material(&config->key, &identity->key, err);
	if (!rc)
		rc = read_material(&config->token, &identity->token, err);
	credentials_trim(identity->token);
	if (!rc && config->token.file && (!identity->token || !identity->token[0]))
		rc = cairn_err_set(err, CAIRN_INVALID, "'%s' holds no token", config->token.file);
	return rc;
}

/* An exec plugin runs only if the configuration itself contains no token. */
static bool wants_plugin(const struct kube_config *config)
{
	return config->exec && !config->token.data && !config->token.file;
}

static int ask_plugin(const struct kube_config *config, const struct kube_deadline *patience,
		      struct kube_identity *identity, uint64_t *ret_expires, struct cairn_err *err)
{
	struct kube_exec_answer answer = {0};
	int rc = kube_exec_run(config, patience, &answer, err);

	if (rc)
		return rc;
	identity->token = answer.token;
	if (answer.cert) {
		kube_wipe(identity->cert);
		kube_wipe(identity->key);
		identity->cert = answer.cert;
		identity->key = answer.key;
	}
	*ret_expires = answer.expires_ns;
	return 0;
}

static bool add_each(struct kube_identity *identity, const char *name, const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item) ||
		    !kube_identity_add(identity, name, json_string_value(item)))
			return false;
	}
	return true;
}

static bool add_impersonation(const struct kube_config *config, struct kube_identity *identity)
{
	void *at;

	if (config->as && !kube_identity_add(identity, "Impersonate-User", config->as))
		return false;
	if (config->as_uid && !kube_identity_add(identity, "Impersonate-Uid", config->as_uid))
		return false;
	if (!add_each(identity, "Impersonate-Group", config->as_groups))
		return false;
	for (at = json_object_iter(config->as_extra); at;
	     at = json_object_iter_next(config->as_extra, at)) {
		cairn_auto_free char *name =
			cairn_printf("Impersonate-Extra-%s", json_object_iter_key(at));

		if (!name || !add_each(identity, name, json_object_iter_value(at)))
			return false;
	}
	return true;
}

/* "Basic …" with padding, which HTTP requires. */
static char *basic_value(const struct kube_config *config)
{
	cairn_cleanup(kube_wipep) char *plain = NULL;
	cairn_auto_secret_buf struct cairn_buf value = CAIRN_BUF_INIT(BASIC_MAX);

	plain = cairn_printf("%s:%s", config->username, config->password ? config->password : "");
	if (!plain)
		return NULL;
	cairn_buf_adds(&value, "Basic ");
	cairn_base64_add(&value, plain, strlen(plain));
	return cairn_buf_take_string(&value);
}

static int credentials_add_fields(const struct kube_config *config, struct kube_identity *identity,
				  struct cairn_err *err)
{
	cairn_cleanup(kube_wipep) char *value = NULL;

	if (identity->token || config->username) {
		value = identity->token ? cairn_printf("Bearer %s", identity->token)
					: basic_value(config);
		if (!value || !kube_identity_add(identity, "Authorization", value))
			return cairn_err_set(err, CAIRN_INVALID, "the token cannot be sent");
	}
	if (!add_impersonation(config, identity))
		return cairn_err_set(err, CAIRN_INVALID, "'as' cannot be sent");
	return 0;
}

static int credentials_fetch(const struct kube_config *config, const struct kube_deadline *patience,
			     struct kube_identity **ret, uint64_t *ret_expires,
			     struct cairn_err *err)
{
	cairn_cleanup(kube_identity_unrefp) struct kube_identity *identity = kube_identity_new();
	int rc;

	*ret_expires = UINT64_MAX;
	if (!identity)
		return cairn_err_nomem(err, "credentials");
	rc = credentials_read_all(config, identity, err);
	if (!rc && wants_plugin(config))
		rc = ask_plugin(config, patience, identity, ret_expires, err);
	if (!rc)
		rc = credentials_add_fields(config, identity, err);
	if (!rc)
		*ret = cairn_take(identity);
	return rc;
}

/* With the lock held. A plugin runs again only when its answer has expired; files are read
 * again periodically. */
static bool is_stale(const struct kube_credentials *credentials)
{
	const struct kube_config *config = credentials->config;

	if (!credentials->current || credentials->refused)
		return true;
	if (credentials->expires_ns != UINT64_MAX &&
	    cairn_now_ns() + EXPIRY_MARGIN_NS >= credentials->expires_ns)
		return true;
	return has_files(config) && !wants_plugin(config) &&
	       cairn_monotonic_ns() - credentials->read_at >=
		       KUBE_CREDENTIALS_FILE_MS * CAIRN_NS_PER_MS;
}

/* With the lock held: replaces the current identity by the fetched one. */
static void credentials_take_over(struct kube_credentials *credentials, struct kube_identity *fresh,
				  uint64_t expires_ns)
{
	credentials->refused = false;
	credentials->expires_ns = expires_ns;
	credentials->read_at = cairn_monotonic_ns();
	if (credentials->current && kube_identity_equal(credentials->current, fresh)) {
		kube_identity_unref(fresh);
		return;
	}
	kube_identity_unref(credentials->current);
	fresh->generation = ++credentials->generation;
	credentials->current = fresh;
}

/* With the lock held; releases it meanwhile. */
static int credentials_refresh(struct kube_credentials *credentials,
			       const struct kube_deadline *patience, struct cairn_err *err)
{
	struct kube_identity *fresh = NULL;
	uint64_t expires_ns;
	int rc;

	credentials->fetching = true;
	pthread_mutex_unlock(&credentials->lock);
	rc = credentials_fetch(credentials->config, patience, &fresh, &expires_ns, err);
	pthread_mutex_lock(&credentials->lock);
	credentials->fetching = false;
	pthread_cond_broadcast(&credentials->changed);
	if (!rc) {
		credentials_take_over(credentials, fresh, expires_ns);
		return 0;
	}
	/* The previous identity may still be accepted. */
	if (!credentials->current || wants_plugin(credentials->config))
		return rc;
	credentials->refused = false;
	credentials->read_at = cairn_monotonic_ns();
	return 0;
}

/* A missing or unreadable file says nothing about the object of the request: callers would take
 * these codes for the API server's answer. */
static int credentials_failed(int rc, struct cairn_err *err)
{
	cairn_err_wrap(err, "credentials");
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_DENIED
		       ? cairn_err_recode(err, CAIRN_UNAVAILABLE)
		       : rc;
}

int kube_credentials_get(struct kube_credentials *credentials, const struct kube_deadline *patience,
			 struct kube_identity **ret, struct cairn_err *err)
{
	cairn_scoped_lock(&credentials->lock);
	while (is_stale(credentials)) {
		int rc = kube_deadline_check(patience, err);

		if (rc)
			return rc;
		if (credentials->fetching) {
			kube_deadline_wait(patience, &credentials->changed, &credentials->lock,
					   cairn_monotonic_ns() + CAIRN_NS_PER_SEC / 20);
			continue;
		}
		rc = credentials_refresh(credentials, patience, err);
		if (rc)
			return credentials_failed(rc, err);
		break;
	}
	*ret = kube_identity_ref(credentials->current);
	return 0;
}

bool kube_credentials_refused(struct kube_credentials *credentials,
			      const struct kube_identity *identity)
{
	const struct kube_config *config = credentials->config;

	cairn_scoped_lock(&credentials->lock);
	if (!wants_plugin(config) && !config->token.file && !config->cert.file)
		return false;
	/* Another thread may have fetched a newer one already. */
	if (credentials->current && credentials->current->generation == identity->generation)
		credentials->refused = true;
	return true;
}
