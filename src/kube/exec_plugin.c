/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/exec_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/config_impl.h"
#include "kube/deadline.h"
#include "kube/object.h"
#include "kube/timestamp.h"

extern char **environ;

void kube_exec_answer_done(struct kube_exec_answer *answer)
{
	kube_wipe(answer->token);
	kube_wipe(answer->cert);
	kube_wipe(answer->key);
	memset(answer, 0, sizeof(*answer));
}

static void exec_plugin_forget(json_t **object)
{
	kube_wipe_json(*object);
	json_decref(*object);
}

static char *copy_of(const char *text)
{
	return text ? cairn_strdup(text) : NULL;
}

int kube_exec_parse(const char *text, size_t n, const char *api_version,
		    struct kube_exec_answer *ret, struct cairn_err *err)
{
	cairn_cleanup(kube_exec_answer_done) struct kube_exec_answer answer = {0};
	cairn_cleanup(exec_plugin_forget) json_t *object = NULL;
	const char *token, *cert, *key, *expires, *version;

	if (kube_json_parse(text, n, &object, err) < 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the plugin printed no ExecCredential");
	version = kube_str(object, "apiVersion");
	if (!version || strcmp(version, api_version) != 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the plugin's answer is not of version %s", api_version);
	token = kube_str(object, "status", "token");
	cert = kube_str(object, "status", "clientCertificateData");
	key = kube_str(object, "status", "clientKeyData");
	if ((!token && !cert) || !cert != !key)
		return cairn_err_set(
			err, CAIRN_UNAUTHENTICATED,
			"the plugin gave neither a token nor a certificate with its key");
	answer.token = copy_of(token);
	answer.cert = copy_of(cert);
	answer.key = copy_of(key);
	if ((token && !answer.token) || (cert && (!answer.cert || !answer.key)))
		return cairn_err_nomem(err, "credentials");
	answer.expires_ns = UINT64_MAX;
	expires = kube_str(object, "status", "expirationTimestamp");
	if (expires && !kube_time_parse(expires, &answer.expires_ns))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the plugin's expirationTimestamp is not a valid time");
	*ret = answer;
	memset(&answer, 0, sizeof(answer));
	return 0;
}

/* argv and envp of a program; the strings are borrowed except `info`. */
struct command {
	char *argv[KUBE_EXEC_ARGUMENTS_MAX + 2];
	char **envp;
	char *info;
	char **own; /* the owned entries of envp */
	size_t n_own;
	bool interactive;
};

static void command_done(struct command *command)
{
	for (size_t i = 0; i < command->n_own; i++)
		kube_wipe(command->own[i]);
	free(command->own);
	free(command->envp);
	kube_wipe(command->info);
}

/* posix_spawn() does not write to what it is given; its prototype predates const. */
static char *exec_plugin_unconst(const char *text)
{
	char *plain;

	memcpy(&plain, &text, sizeof(plain));
	return plain;
}

static int set_arguments(struct command *command, const json_t *exec, struct cairn_err *err)
{
	const json_t *list = kube_at(exec, "args");
	const json_t *item;
	size_t i;

	if (json_array_size(list) > KUBE_EXEC_ARGUMENTS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "exec has more than %d arguments",
				     KUBE_EXEC_ARGUMENTS_MAX);
	command->argv[0] = exec_plugin_unconst(kube_str(exec, "command"));
	json_array_foreach(list, i, item)
	{
		if (!json_is_string(item))
			return cairn_err_set(
				err, CAIRN_INVALID,
				"an argument of exec is not a string; put it in quotes");
		command->argv[i + 1] = exec_plugin_unconst(json_string_value(item));
	}
	return 0;
}

static bool is_set_in(const json_t *env, const char *variable)
{
	const json_t *item;
	size_t i, n = strcspn(variable, "=");

	if (strncmp(variable, "KUBERNETES_EXEC_INFO=", 21) == 0)
		return true;
	json_array_foreach(env, i, item)
	{
		const char *name = kube_str(item, "name");

		if (name && strlen(name) == n && strncmp(name, variable, n) == 0)
			return true;
	}
	return false;
}

static int exec_plugin_add_own(struct command *command, const char *name, const char *value,
			       struct cairn_err *err)
{
	char *text = name && value ? cairn_printf("%s=%s", name, value) : NULL;

	if (!text)
		return cairn_err_set(err, CAIRN_INVALID,
				     "exec's env is not a list of names and values");
	command->own[command->n_own++] = text;
	return 0;
}

/* Our environment, preceded by the configured variables. */
static int set_environment(struct command *command, const json_t *exec, struct cairn_err *err)
{
	const json_t *env = kube_at(exec, "env");
	const json_t *item;
	size_t i, n = 0, at = 0;
	int rc;

	for (char **p = environ; *p; p++)
		n++;
	if (json_array_size(env) > KUBE_EXEC_ARGUMENTS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "exec sets too many variables");
	command->own = cairn_calloc(json_array_size(env) + 1, sizeof(char *));
	command->envp = cairn_calloc(n + json_array_size(env) + 2, sizeof(char *));
	if (!command->own || !command->envp)
		return cairn_err_nomem(err, "environment");
	rc = exec_plugin_add_own(command, "KUBERNETES_EXEC_INFO", command->info, err);
	json_array_foreach(env, i, item)
	{
		if (!rc)
			rc = exec_plugin_add_own(command, kube_str(item, "name"),
						 kube_str(item, "value"), err);
	}
	for (i = 0; i < command->n_own; i++)
		command->envp[at++] = command->own[i];
	for (char **p = environ; *p; p++)
		if (!is_set_in(env, *p))
			command->envp[at++] = *p;
	return rc;
}

/* The cluster description that a plugin receives if it asks for it. */
static json_t *cluster_info(const struct kube_config *config)
{
	return json_pack("{s:s, s:s*, s:s*, s:b, s:O*}", "server", config->server,
			 "tls-server-name", config->tls_server_name, "proxy-url", config->proxy,
			 "insecure-skip-tls-verify", config->insecure, "config",
			 config->cluster_extension);
}

static int set_info(struct command *command, const struct kube_config *config,
		    const char *api_version, struct cairn_err *err)
{
	bool wanted = kube_is(config->exec, "provideClusterInfo");
	json_t *cluster = wanted ? cluster_info(config) : NULL;
	kube_auto_json json_t *info = NULL;

	if (wanted && !cluster)
		return cairn_err_nomem(err, "exec");
	info = json_pack("{s:s, s:s, s:{s:b, s:o*}}", "apiVersion", api_version, "kind",
			 "ExecCredential", "spec", "interactive", command->interactive, "cluster",
			 cluster);
	command->info = info ? kube_json_text(info, NULL) : NULL;
	return command->info ? 0 : cairn_err_nomem(err, "exec");
}

/* Offers a terminal unless the configuration forbids it. */
static int set_interactive(struct command *command, const json_t *exec, struct cairn_err *err)
{
	const char *mode = kube_str(exec, "interactiveMode");
	bool terminal = isatty(STDIN_FILENO);

	if (mode && strcmp(mode, "Always") == 0 && !terminal)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the plugin needs a terminal, but standard input is not one");
	command->interactive = terminal && !(mode && strcmp(mode, "Never") == 0);
	return 0;
}

static int exec_plugin_start(const struct command *command, int stdout_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return rc;
	if (!command->interactive)
		rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
	if (!rc)
		rc = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
	if (!rc)
		rc = posix_spawnp(ret_pid, command->argv[0], &actions, NULL, command->argv,
				  command->envp);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static int read_output(int fd, const struct kube_deadline *patience, struct cairn_buf *out,
		       struct cairn_err *err)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	for (;;) {
		int rc = kube_deadline_check(patience, err);
		ssize_t got;
		char *to;

		if (rc)
			return rc;
		if (poll(&ready, 1, KUBE_PATIENCE_SLICE_MS) <= 0)
			continue;
		to = cairn_buf_reserve(out, 4096);
		if (!to)
			return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
					     "the plugin printed more than %u bytes",
					     KUBE_EXEC_OUTPUT_MAX);
		got = read(fd, to, 4096);
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR)
			return cairn_err_sys(err, errno, "read from the plugin");
		out->len += got > 0 ? (size_t)got : 0;
	}
}

/* A plugin that has closed its output may take some time to exit. */
static int wait_end(pid_t pid, const struct kube_deadline *patience, int *ret_status,
		    struct cairn_err *err)
{
	for (;;) {
		pid_t got = waitpid(pid, ret_status, WNOHANG);
		int rc;

		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return cairn_err_sys(err, errno, "wait for the plugin");
		rc = kube_deadline_check(patience, err);
		if (rc)
			return rc;
		cairn_sleep_ms(5);
	}
}

static int exec_plugin_judge(const struct command *command, int status, struct cairn_err *err)
{
	if (WIFSIGNALED(status))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "%s was ended by signal %d",
				     command->argv[0], WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "%s failed with status %d",
				     command->argv[0], WEXITSTATUS(status));
	return 0;
}

static int exec_plugin_run(const struct command *command, const json_t *exec,
			   const struct kube_deadline *patience, struct cairn_buf *out,
			   struct cairn_err *err)
{
	const char *hint = kube_str(exec, "installHint");
	cairn_auto_fd int read_end = -1;
	int ends[2], status, rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "pipe");
	read_end = ends[0];
	rc = exec_plugin_start(command, ends[1], &pid);
	close(ends[1]);
	if (rc == ENOENT)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "%s is not installed%s%s",
				     command->argv[0], hint ? ": " : "", hint ? hint : "");
	if (rc)
		return cairn_err_sys(err, rc, "start %s", command->argv[0]);
	rc = read_output(read_end, patience, out, err);
	if (!rc)
		rc = wait_end(pid, patience, &status, err);
	if (!rc)
		return exec_plugin_judge(command, status, err);
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return rc;
}

int kube_exec_run(const struct kube_config *config, const struct kube_deadline *patience,
		  struct kube_exec_answer *ret, struct cairn_err *err)
{
	const char *version = kube_str(config->exec, "apiVersion");
	cairn_cleanup(command_done) struct command command = {0};
	cairn_auto_secret_buf struct cairn_buf out = CAIRN_BUF_INIT(KUBE_EXEC_OUTPUT_MAX);
	int rc;

	if (!version || (strcmp(version, "client.authentication.k8s.io/v1") != 0 &&
			 strcmp(version, "client.authentication.k8s.io/v1beta1") != 0))
		return cairn_err_set(err, CAIRN_INVALID,
				     "exec has no apiVersion of client.authentication.k8s.io "
				     "(v1 or v1beta1)");
	rc = set_interactive(&command, config->exec, err);
	if (!rc)
		rc = set_info(&command, config, version, err);
	if (!rc)
		rc = set_arguments(&command, config->exec, err);
	if (!rc)
		rc = set_environment(&command, config->exec, err);
	if (!rc)
		rc = exec_plugin_run(&command, config->exec, patience, &out, err);
	if (!rc)
		rc = kube_exec_parse((const char *)out.data, out.len, version, ret, err);
	return rc;
}
