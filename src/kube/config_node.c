/* SPDX-License-Identifier: Apache-2.0 */

/* Clusters and users of a kubeconfig; part of config_impl.h. */
#include "kube/config_impl.h"

#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"

void kube_wipe(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

/* Copies a text field. Only lists and objects are rejected: the YAML reader keeps scalars
 * such as a token of digits as strings. */
int kube_config_text(const json_t *node, const char *field, char **ret, struct cairn_err *err)
{
	const json_t *value = kube_at(node, field);
	const char *text = kube_str(node, field);

	if (!value || (text && !text[0]))
		return 0;
	if (json_is_boolean(value))
		text = json_is_true(value) ? "true" : "false";
	if (!text)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not text", field);
	*ret = cairn_strdup(text);
	return *ret ? 0 : cairn_err_nomem(err, field);
}

static int get_bool(const json_t *node, const char *field, bool *ret, struct cairn_err *err)
{
	if (kube_at(node, field) && !kube_bool(node, ret, field))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is neither true nor false", field);
	return 0;
}

/* A file named in a kubeconfig is relative to that kubeconfig. */
static int config_node_get_file(const json_t *node, const char *field, const char *dir, char **ret,
				struct cairn_err *err)
{
	cairn_auto_free char *name = NULL;
	int rc = kube_config_text(node, field, &name, err);

	if (rc || !name)
		return rc;
	*ret = name[0] == '/' || !dir[0] ? cairn_take(name) : cairn_printf("%s/%s", dir, name);
	return *ret ? 0 : cairn_err_nomem(err, field);
}

/* Decodes in place; skips blanks and line ends. */
static int config_node_decode(char *text, const char *field, struct cairn_err *err)
{
	size_t kept = 0;
	size_t n;

	for (const char *p = text; *p; p++)
		if (!strchr(" \t\r\n", *p))
			text[kept++] = *p;
	text[kept] = '\0';
	if (!cairn_base64_decode(text, kept, (uint8_t *)text, &n))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not base64", field);
	explicit_bzero(text + n, kept - n);
	return 0;
}

static int get_material(const json_t *node, const char *data_field, const char *file_field,
			const char *dir, struct kube_material *ret, struct cairn_err *err)
{
	cairn_cleanup(kube_wipep) char *data = NULL;
	int rc = kube_config_text(node, data_field, &data, err);

	if (!rc && data)
		rc = config_node_decode(data, data_field, err);
	if (rc)
		return rc;
	if (data) {
		ret->data = cairn_take(data);
		return 0;
	}
	return config_node_get_file(node, file_field, dir, &ret->file, err);
}

/* Returns a copy, because the kubeconfig tree is wiped after it was read. */
static int get_copy(const json_t *node, const char *field, json_t **ret, struct cairn_err *err)
{
	if (!kube_at(node, field))
		return 0;
	*ret = kube_copy(kube_at(node, field));
	return *ret ? 0 : cairn_err_nomem(err, field);
}

static int get_extension(struct kube_config *config, const json_t *cluster, struct cairn_err *err)
{
	const json_t *list = kube_at(cluster, "extensions");
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		const char *name = kube_str(item, "name");

		if (name && strcmp(name, "client.authentication.k8s.io/exec") == 0)
			return get_copy(item, "extension", &config->cluster_extension, err);
	}
	return 0;
}

int kube_config_set_cluster(struct kube_config *config, const json_t *cluster, const char *dir,
			    struct cairn_err *err)
{
	int rc = kube_config_text(cluster, "server", &config->server, err);
	size_t n;

	if (!rc)
		rc = kube_config_text(cluster, "tls-server-name", &config->tls_server_name, err);
	if (!rc)
		rc = kube_config_text(cluster, "proxy-url", &config->proxy, err);
	if (!rc)
		rc = get_bool(cluster, "insecure-skip-tls-verify", &config->insecure, err);
	if (!rc)
		rc = get_material(cluster, "certificate-authority-data", "certificate-authority",
				  dir, &config->ca, err);
	if (rc)
		return rc;
	if (!config->server)
		return cairn_err_set(err, CAIRN_INVALID, "the cluster has no 'server'");
	if (strncmp(config->server, "https://", 8) != 0 &&
	    strncmp(config->server, "http://", 7) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "server '%s' is not a URL",
				     config->server);
	for (n = strlen(config->server); n > 0 && config->server[n - 1] == '/'; n--)
		config->server[n - 1] = '\0';
	return get_extension(config, cluster, err);
}

/* `command` with a slash in it is relative to the kubeconfig; without one it is searched
 * for in PATH. */
static int set_exec(struct kube_config *config, const json_t *exec, const char *dir,
		    struct cairn_err *err)
{
	kube_auto_json json_t *copy = kube_copy(exec);
	const char *command = kube_str(exec, "command");
	cairn_auto_free char *path = NULL;
	int rc = 0;

	if (!copy)
		return cairn_err_nomem(err, "exec");
	if (!command || !command[0])
		return cairn_err_set(err, CAIRN_INVALID, "exec without 'command'");
	if (strchr(command, '/') && command[0] != '/' && dir[0]) {
		path = cairn_printf("%s/%s", dir, command);
		rc = kube_set(copy, err, path ? json_string(path) : NULL, "command");
	}
	if (!rc)
		config->exec = cairn_take(copy);
	return rc;
}

static int set_impersonation(struct kube_config *config, const json_t *user, struct cairn_err *err)
{
	int rc = kube_config_text(user, "as", &config->as, err);

	if (!rc)
		rc = kube_config_text(user, "as-uid", &config->as_uid, err);
	if (!rc)
		rc = get_copy(user, "as-groups", &config->as_groups, err);
	if (!rc)
		rc = get_copy(user, "as-user-extra", &config->as_extra, err);
	if (rc)
		return rc;
	if (!config->as && (config->as_uid || config->as_groups || config->as_extra))
		return cairn_err_set(err, CAIRN_INVALID, "'as-…' without 'as'");
	return 0;
}

int kube_config_set_user(struct kube_config *config, const json_t *user, const char *dir,
			 struct cairn_err *err)
{
	int rc;

	if (kube_at(user, "auth-provider"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "auth-provider is not supported; use exec");
	rc = get_material(user, "client-certificate-data", "client-certificate", dir, &config->cert,
			  err);
	if (!rc)
		rc = get_material(user, "client-key-data", "client-key", dir, &config->key, err);
	if (!rc)
		rc = kube_config_text(user, "token", &config->token.data, err);
	if (!rc)
		rc = config_node_get_file(user, "tokenFile", dir, &config->token.file, err);
	if (!rc)
		rc = kube_config_text(user, "username", &config->username, err);
	if (!rc)
		rc = kube_config_text(user, "password", &config->password, err);
	if (!rc)
		rc = set_impersonation(config, user, err);
	if (!rc && kube_at(user, "exec"))
		rc = set_exec(config, kube_at(user, "exec"), dir, err);
	if (rc)
		return rc;
	if ((config->cert.data || config->cert.file) != (config->key.data || config->key.file))
		return cairn_err_set(err, CAIRN_INVALID,
				     "a client certificate needs its key, and the key it");
	return 0;
}
