/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "kube/config_impl.h"
#include "kube/global_init.h"
#include "kube/object.h"
#include "kube/yaml.h"

#define POD_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

#define NAMESPACE_FILE_MAX 256

void kube_wipe_json(json_t *json)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_string(json)) {
		/* Nobody else holds it: the tree is ours to the last reference. */
		char *text;
		const char *held = json_string_value(json);

		memcpy(&text, &held, sizeof(text));
		explicit_bzero(text, json_string_length(json));
		return;
	}
	json_array_foreach(json, i, value)
	{
		kube_wipe_json(value);
	}
	json_object_foreach(json, key, value)
	{
		kube_wipe_json(value);
	}
}

static void wipe_material(struct kube_material *material)
{
	kube_wipe(material->data);
	free(material->file);
}

void kube_config_free(struct kube_config *config)
{
	if (!config || atomic_fetch_sub(&config->refs, 1) > 1)
		return;
	free(config->server);
	free(config->tls_server_name);
	kube_wipe(config->proxy);
	wipe_material(&config->ca);
	wipe_material(&config->cert);
	wipe_material(&config->key);
	wipe_material(&config->token);
	json_decref(config->cluster_extension);
	free(config->username);
	kube_wipe(config->password);
	free(config->as);
	free(config->as_uid);
	json_decref(config->as_groups);
	json_decref(config->as_extra);
	json_decref(config->exec);
	free(config->ns);
	free(config);
}

struct kube_config *kube_config_ref(const struct kube_config *config)
{
	struct kube_config *held;

	/* The reference count is the only thing that changes in a configuration. */
	memcpy(&held, &config, sizeof(held));
	atomic_fetch_add(&held->refs, 1);
	return held;
}

static struct kube_config *config_new(void)
{
	struct kube_config *config = cairn_calloc(1, sizeof(*config));

	if (config)
		atomic_init(&config->refs, 1);
	return config;
}

const char *kube_config_server(const struct kube_config *config)
{
	return config->server;
}

const char *kube_config_namespace(const struct kube_config *config)
{
	return config->ns ? config->ns : "default";
}

bool kube_config_is_in_cluster(const struct kube_config *config)
{
	return config->in_cluster;
}

/* One of several files: its contents and its directory. */
struct source {
	json_t *root;
	char *dir;
};

struct sources {
	struct source at[KUBE_CONFIG_FILES_MAX];
	size_t n;
};

static void sources_done(struct sources *sources)
{
	for (size_t i = 0; i < sources->n; i++) {
		/* Nodes may be shared by aliases; wiping twice does no harm. */
		kube_wipe_json(sources->at[i].root);
		json_decref(sources->at[i].root);
		free(sources->at[i].dir);
	}
	sources->n = 0;
}

static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return cairn_strdup("");
	return cairn_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int kube_config_add_text(struct sources *sources, const char *text, size_t n,
				const char *path, struct cairn_err *err)
{
	struct source source = {0};
	int rc;

	if (sources->n == KUBE_CONFIG_FILES_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "more than %d kubeconfig files",
				     KUBE_CONFIG_FILES_MAX);
	rc = kube_yaml_parse(text, n, &source.root, err);
	if (rc)
		return cairn_err_wrap(err, "%s", path);
	source.dir = dir_of(path);
	if (!source.dir) {
		json_decref(source.root);
		return cairn_err_nomem(err, "path");
	}
	sources->at[sources->n++] = source;
	if (!json_is_object(source.root) && !json_is_null(source.root))
		return cairn_err_set(err, CAIRN_INVALID, "%s: no kubeconfig", path);
	return 0;
}

static int add_file(struct sources *sources, const char *path, struct cairn_err *err)
{
	cairn_cleanup(kube_wipep) char *text = NULL;
	size_t n = 0;
	int rc = cairn_file_read(AT_FDCWD, path, KUBE_CONFIG_FILE_MAX, &text, &n, err);

	return rc ? rc : kube_config_add_text(sources, text, n, path, err);
}

/* Adds those files of KUBECONFIG that exist. */
static int add_listed(struct sources *sources, const char *list, struct cairn_err *err)
{
	while (*list) {
		size_t n = strcspn(list, ":");
		cairn_auto_free char *path = cairn_strndup(list, n);
		int rc = 0;

		if (!path)
			return cairn_err_nomem(err, "path");
		if (path[0])
			rc = add_file(sources, path, err);
		if (rc && rc != CAIRN_NOT_FOUND)
			return rc;
		list += n + (list[n] == ':');
	}
	return 0;
}

static int add_home(struct sources *sources, struct cairn_err *err)
{
	const char *home = getenv("HOME");
	cairn_auto_free char *path = NULL;
	int rc;

	if (!home || !home[0])
		return 0;
	path = cairn_printf("%s/.kube/config", home);
	if (!path)
		return cairn_err_nomem(err, "path");
	rc = add_file(sources, path, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* Returns the first entry of that name in a list of named entries ("clusters"), and the
 * directory of its file. */
static const json_t *kube_config_find_named(const struct sources *sources, const char *list_name,
					    const char *part, const char *name,
					    const char **ret_dir)
{
	for (size_t i = 0; i < sources->n; i++) {
		const json_t *list = kube_at(sources->at[i].root, list_name);
		const json_t *item;
		size_t at;

		json_array_foreach(list, at, item)
		{
			const char *has = kube_str(item, "name");

			*ret_dir = sources->at[i].dir;
			if (has && strcmp(has, name) == 0)
				return kube_at(item, part) ? kube_at(item, part) : item;
		}
	}
	return NULL;
}

static const char *current_context(const struct sources *sources)
{
	for (size_t i = 0; i < sources->n; i++) {
		const char *name = kube_str(sources->at[i].root, "current-context");

		if (name && name[0])
			return name;
	}
	return NULL;
}

static const char *kube_config_given(const char *text)
{
	return text && text[0] ? text : NULL;
}

static int kube_config_fill(struct kube_config *config, const struct sources *sources,
			    const struct kube_config_options *options, struct cairn_err *err)
{
	const char *name =
		kube_config_given(options->context) ? options->context : current_context(sources);
	const json_t *context = NULL, *cluster, *user = NULL;
	const char *cluster_name, *user_name, *dir = "";
	int rc;

	if (name)
		context = kube_config_find_named(sources, "contexts", "context", name, &dir);
	if (name && !context)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no context '%s' in kubeconfig", name);
	cluster_name = kube_config_given(options->cluster) ? options->cluster
							   : kube_str(context, "cluster");
	user_name = kube_config_given(options->user) ? options->user : kube_str(context, "user");
	if (!kube_config_given(cluster_name))
		return cairn_err_set(err, CAIRN_INVALID, "kubeconfig names no current context");
	cluster = kube_config_find_named(sources, "clusters", "cluster", cluster_name, &dir);
	if (!cluster)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no cluster '%s' in kubeconfig",
				     cluster_name);
	rc = kube_config_set_cluster(config, cluster, dir, err);
	if (!rc && kube_config_given(user_name)) {
		user = kube_config_find_named(sources, "users", "user", user_name, &dir);
		if (!user)
			return cairn_err_set(err, CAIRN_NOT_FOUND, "no user '%s' in kubeconfig",
					     user_name);
		rc = kube_config_set_user(config, user, dir, err);
	}
	if (!rc)
		rc = kube_config_text(context, "namespace", &config->ns, err);
	return rc;
}

static int kube_config_make(const struct sources *sources,
			    const struct kube_config_options *options, struct kube_config **ret,
			    struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = config_new();
	int rc;

	if (!config)
		return cairn_err_nomem(err, "configuration");
	rc = kube_config_fill(config, sources, options, err);
	if (!rc)
		*ret = cairn_take(config);
	return rc;
}

int kube_config_parse(const char *text, size_t n, const char *path, const char *context,
		      struct kube_config **ret, struct cairn_err *err)
{
	const struct kube_config_options options = {.context = context};
	cairn_cleanup(sources_done) struct sources sources = {.n = 0};
	int rc;

	kube_global_init();
	rc = kube_config_add_text(&sources, text, n, path, err);
	return rc ? rc : kube_config_make(&sources, &options, ret, err);
}

int kube_config_load(const struct kube_config_options *options, struct kube_config **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(sources_done) struct sources sources = {.n = 0};
	const char *listed = getenv("KUBECONFIG");
	int rc;

	kube_global_init();
	if (kube_config_given(options->kubeconfig))
		rc = add_file(&sources, options->kubeconfig, err);
	else if (kube_config_given(listed))
		rc = add_listed(&sources, listed, err);
	else
		rc = add_home(&sources, err);
	if (rc)
		return rc;
	if (sources.n > 0)
		return kube_config_make(&sources, options, ret, err);
	rc = kube_config_in_cluster(options->pod_dir, ret, err);
	if (rc == CAIRN_PRECONDITION)
		return cairn_err_set(err, rc, "no kubeconfig was found, and this is not a pod");
	return rc;
}

static char *pod_server(void)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (!kube_config_given(host) || !kube_config_given(port))
		return NULL;
	if (strchr(host, ':'))
		return cairn_printf("https://[%s]:%s", host, port);
	return cairn_printf("https://%s:%s", host, port);
}

int kube_config_in_cluster(const char *pod_dir, struct kube_config **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	const char *dir = kube_config_given(pod_dir) ? pod_dir : POD_DIR;
	cairn_auto_free char *ns_file = NULL;
	size_t n;
	int rc;

	kube_global_init();
	if (!kube_config_given(getenv("KUBERNETES_SERVICE_HOST")) ||
	    !kube_config_given(getenv("KUBERNETES_SERVICE_PORT")))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "this is not a pod: KUBERNETES_SERVICE_HOST is not set");
	config = config_new();
	ns_file = cairn_printf("%s/namespace", dir);
	if (!config || !ns_file)
		return cairn_err_nomem(err, "configuration");
	config->in_cluster = true;
	config->server = pod_server();
	config->ca.file = cairn_printf("%s/ca.crt", dir);
	config->token.file = cairn_printf("%s/token", dir);
	if (!config->server || !config->ca.file || !config->token.file)
		return cairn_err_nomem(err, "configuration");
	rc = cairn_file_read(AT_FDCWD, ns_file, NAMESPACE_FILE_MAX, &config->ns, &n, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	if (config->ns)
		config->ns[strcspn(config->ns, " \r\n")] = '\0';
	if (access(config->token.file, R_OK) < 0)
		return cairn_err_set(err, CAIRN_PRECONDITION, "no token of a service account in %s",
				     dir);
	*ret = cairn_take(config);
	return 0;
}
