/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/config_impl.h"
#include "kube/credentials.h"
#include "kube/deadline.h"
#include "kube/exec_plugin.h"
#include "kube/global_init.h"
#include "kube/identity.h"
#include "kube/kube_config.h"
#include "kube/object.h"
#include "kube/yaml.h"

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
#define BOTH                                                                              \
	HEAD "clusters:\n- name: k\n  cluster: {server: 'https://h:6443/'}\n"             \
	     "contexts:\n- name: c\n  context: {cluster: k, user: u, namespace: space}\n" \
	     "- name: d\n  context: {cluster: k2, user: u2}\n"                            \
	     "users:\n- name: u\n  user:\n"

static struct kube_config *parse(const char *text)
{
	struct kube_config *config = NULL;
	struct cairn_err err = {0};

	assert_ok(kube_config_parse(text, strlen(text), "/dir/config", NULL, &config, &err), &err);
	return config;
}

static void a_user_is_read_as_it_is_written(void **state)
{
	struct kube_config *config = parse(
		BOTH "    token: 0123456789\n"
		     "    client-certificate-data: Y2VydA==\n"
		     "    client-key-data: a2V5\n"
		     "    as: somebody\n    as-groups: [a, b]\n    as-user-extra: {k: [v]}\n");

	(void)state;
	assert_string_equal(kube_config_server(config), "https://h:6443");
	assert_string_equal(kube_config_namespace(config), "space");
	assert_false(kube_config_is_in_cluster(config));
	assert_string_equal(config->token.data, "0123456789");
	assert_string_equal(config->cert.data, "cert");
	assert_string_equal(config->key.data, "key");
	assert_string_equal(config->as, "somebody");
	assert_int_equal(json_array_size(config->as_groups), 2);
	kube_config_free(config);
}

static void files_are_those_beside_the_kubeconfig(void **state)
{
	struct kube_config *config = parse(
		HEAD "clusters:\n- name: k\n  cluster:\n    server: https://h\n"
		     "    certificate-authority: ca.crt\n    tls-server-name: other\n"
		     "    insecure-skip-tls-verify: true\n    proxy-url: http://proxy:3128\n"
		     "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
		     "users:\n- name: u\n  user: {tokenFile: /abs/token, client-certificate: x/c,\n"
		     "    client-key: k, exec: {command: ./plugin, apiVersion: v}}\n");

	(void)state;
	assert_string_equal(config->ca.file, "/dir/ca.crt");
	assert_string_equal(config->token.file, "/abs/token");
	assert_string_equal(config->cert.file, "/dir/x/c");
	assert_string_equal(config->tls_server_name, "other");
	assert_string_equal(config->proxy, "http://proxy:3128");
	assert_true(config->insecure);
	assert_string_equal(kube_str(config->exec, "command"), "/dir/./plugin");
	assert_string_equal(kube_config_namespace(config), "default");
	kube_config_free(config);
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
		{"", CAIRN_INVALID, "no current context"},
		{"[1, 2]", CAIRN_INVALID, "no kubeconfig"},
		{"a: [", CAIRN_INVALID, "line "},
		{"{}", CAIRN_INVALID, "no current context"},
		{"current-context: x", CAIRN_NOT_FOUND, "no context 'x'"},
		{HEAD "contexts: [{name: c, context: {cluster: z}}]", CAIRN_NOT_FOUND,
		 "no cluster 'z'"},
		{HEAD "contexts: [{name: c, context: {cluster: k, user: z}}]\n"
		      "clusters: [{name: k, cluster: {server: 'https://h'}}]",
		 CAIRN_NOT_FOUND, "no user 'z'"},
		{HEAD "contexts: [{name: c, context: {cluster: k}}]\n"
		      "clusters: [{name: k, cluster: {}}]",
		 CAIRN_INVALID, "no 'server'"},
		{HEAD "contexts: [{name: c, context: {cluster: k}}]\n"
		      "clusters: [{name: k, cluster: {server: 'ftp://h'}}]",
		 CAIRN_INVALID, "not a URL"},
		{BOTH "    client-certificate-data: '%%'\n", CAIRN_INVALID, "not base64"},
		{BOTH "    client-certificate: x\n", CAIRN_INVALID, "needs its key"},
		{BOTH "    token: [a]\n", CAIRN_INVALID, "'token' is not text"},
		{BOTH "    auth-provider: {name: gcp}\n", CAIRN_UNIMPLEMENTED, "use exec"},
		{BOTH "    exec: {apiVersion: v}\n", CAIRN_INVALID, "without 'command'"},
		{BOTH "    as-groups: [a]\n", CAIRN_INVALID, "without 'as'"},
		{"? [a]\n: b\n", CAIRN_INVALID, "a key is not text"},
		{"a: &x [*x]\n", CAIRN_INVALID, "nested too deep"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_config *config = NULL;
		struct cairn_err err = {0};

		assert_code(kube_config_parse(cases[i].text, strlen(cases[i].text), "f", NULL,
					      &config, &err),
			    cases[i].code);
		assert_null(config);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("'%s' does not say '%s'", err.msg, cases[i].says);
	}
}

static void aliases_are_followed_and_do_not_multiply(void **state)
{
	static const char good[] =
		HEAD "x: &s {server: 'https://h'}\nclusters: [{name: k, cluster: *s}]\n"
		     "contexts: [{name: c, context: {cluster: k}}]\n";
	static const char bad[] =
		"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
		"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
		"f: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
	struct kube_config *config = parse(good);
	json_t *json = NULL;

	(void)state;
	assert_string_equal(kube_config_server(config), "https://h");
	kube_config_free(config);
	assert_code(kube_yaml_parse(bad, sizeof(bad) - 1, &json, NULL), CAIRN_INVALID);
}

struct scene {
	char dir[64];
};

static void write_file(const struct scene *scene, const char *name, const char *text)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", scene->dir, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	assert_non_null(scene);
	scratch_template(scene->dir, "kubeconfig");
	assert_non_null(mkdtemp(scene->dir));
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
	unsetenv("KUBECONFIG");
	setenv("HOME", "/nonexistent", 1);
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *scene = *state;
	static const char *const names[] = {"a",      "b",      "token", "namespace",
					    "ca.crt", "plugin", "runs",  ".kube/config"};
	char path[160];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", scene->dir, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/.kube", scene->dir);
	rmdir(path);
	assert_int_equal(rmdir(scene->dir), 0);
	free(scene);
	return 0;
}

static void several_files_are_one_and_the_first_wins(void **state)
{
	struct scene *scene = *state;
	struct kube_config *config = NULL;
	struct cairn_err err = {0};
	char list[256];

	write_file(scene, "a",
		   "current-context: c\nclusters: [{name: k, cluster: {server: 'https://first', "
		   "certificate-authority: mine}}]\n");
	write_file(scene, "b",
		   "current-context: other\n"
		   "clusters: [{name: k, cluster: {server: 'https://second'}}, "
		   "{name: k2, cluster: {server: 'https://third'}}]\n"
		   "contexts: [{name: c, context: {cluster: k, user: u}}, "
		   "{name: d, context: {cluster: k2}}]\nusers: [{name: u, user: {token: t}}]\n");
	snprintf(list, sizeof(list), "%s/absent:%s/a::%s/b", scene->dir, scene->dir, scene->dir);
	setenv("KUBECONFIG", list, 1);
	assert_ok(kube_config_load(&(struct kube_config_options){0}, &config, &err), &err);
	assert_string_equal(kube_config_server(config), "https://first");
	assert_string_equal(config->token.data, "t");
	assert_true(strncmp(config->ca.file, scene->dir, strlen(scene->dir)) == 0);
	kube_config_free(config);
	assert_ok(kube_config_load(&(struct kube_config_options){.context = "d", .user = "u"},
				   &config, &err),
		  &err);
	assert_string_equal(kube_config_server(config), "https://third");
	assert_string_equal(config->token.data, "t");
	kube_config_free(config);
}

static void a_file_that_is_named_must_be_there(void **state)
{
	struct kube_config *config = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_code(kube_config_load(&(struct kube_config_options){.kubeconfig = "/no/file"},
				     &config, &err),
		    CAIRN_NOT_FOUND);
	assert_code(kube_config_load(&(struct kube_config_options){0}, &config, &err),
		    CAIRN_PRECONDITION);
}

static void the_home_is_looked_at_before_the_pod(void **state)
{
	struct scene *scene = *state;
	struct kube_config *config = NULL;
	struct cairn_err err = {0};
	char path[128];

	write_file(scene, "token", "t");
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	setenv("HOME", scene->dir, 1);
	assert_ok(kube_config_load(&(struct kube_config_options){.pod_dir = scene->dir}, &config,
				   &err),
		  &err);
	assert_true(kube_config_is_in_cluster(config));
	assert_string_equal(kube_config_server(config), "https://[fd00::1]:443");
	assert_string_equal(kube_config_namespace(config), "default");
	kube_config_free(config);
	snprintf(path, sizeof(path), "%s/.kube", scene->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	write_file(scene, ".kube/config", BOTH "    token: t\n");
	assert_ok(kube_config_load(&(struct kube_config_options){.pod_dir = scene->dir}, &config,
				   &err),
		  &err);
	assert_false(kube_config_is_in_cluster(config));
	kube_config_free(config);
}

static void a_pod_without_a_token_is_none(void **state)
{
	struct scene *scene = *state;
	struct kube_config *config = NULL;
	struct cairn_err err = {0};

	setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	write_file(scene, "namespace", "mine\n");
	assert_code(kube_config_in_cluster(scene->dir, &config, &err), CAIRN_PRECONDITION);
	write_file(scene, "token", "t");
	assert_ok(kube_config_in_cluster(scene->dir, &config, &err), &err);
	assert_string_equal(kube_config_namespace(config), "mine");
	kube_config_free(config);
}

static struct kube_identity *identity_of(struct kube_credentials *credentials)
{
	const struct kube_deadline patience = {.deadline_ns = cairn_monotonic_ns() +
							      10 * CAIRN_NS_PER_SEC};
	struct kube_identity *identity = NULL;
	struct cairn_err err = {0};

	assert_ok(kube_credentials_get(credentials, &patience, &identity, &err), &err);
	return identity;
}

static void a_token_file_that_vanishes_leaves_the_last_good_one(void **state)
{
	struct scene *scene = *state;
	struct kube_config *config = NULL;
	struct kube_credentials *credentials = NULL;
	struct kube_identity *first, *second;
	struct cairn_err err = {0};
	char text[512], path[128];

	write_file(scene, "token", "one\n");
	snprintf(text, sizeof(text), BOTH "    tokenFile: %s/token\n", scene->dir);
	config = parse(text);
	assert_ok(kube_credentials_new(config, &credentials, &err), &err);
	first = identity_of(credentials);
	assert_string_equal(first->token, "one");
	snprintf(path, sizeof(path), "%s/token", scene->dir);
	assert_int_equal(unlink(path), 0);
	assert_true(kube_credentials_refused(credentials, first));
	second = identity_of(credentials);
	assert_ptr_equal(first, second);
	kube_identity_unref(second);
	write_file(scene, "token", "two");
	assert_true(kube_credentials_refused(credentials, first));
	second = identity_of(credentials);
	assert_string_equal(second->token, "two");
	assert_true(second->generation > first->generation);
	kube_identity_unref(second);
	kube_identity_unref(first);
	kube_credentials_free(credentials);
	kube_config_free(config);
}

static void a_fixed_token_is_not_worth_reading_again(void **state)
{
	struct kube_config *config = parse(BOTH "    token: t\n");
	struct kube_credentials *credentials = NULL;
	struct kube_identity *identity;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_credentials_new(config, &credentials, &err), &err);
	identity = identity_of(credentials);
	assert_false(kube_credentials_refused(credentials, identity));
	kube_identity_unref(identity);
	kube_credentials_free(credentials);
	kube_config_free(config);
}

static void a_token_that_would_be_two_fields_is_not_sent(void **state)
{
	struct kube_config *config = parse(BOTH "    token: \"a\\r\\nHost: evil\"\n");
	struct kube_credentials *credentials = NULL;
	struct kube_identity *identity = NULL;
	const struct kube_deadline patience = {.deadline_ns = UINT64_MAX};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_credentials_new(config, &credentials, &err), &err);
	assert_code(kube_credentials_get(credentials, &patience, &identity, &err), CAIRN_INVALID);
	assert_null(strstr(err.msg, "evil"));
	kube_credentials_free(credentials);
	kube_config_free(config);
}

#define V1 "client.authentication.k8s.io/v1"

static void a_plugins_answer_is_judged(void **state)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{"{\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"t\"}}", 0},
		{"{\"apiVersion\":\"" V1 "\",\"status\":{\"clientCertificateData\":\"c\","
		 "\"clientKeyData\":\"k\",\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}",
		 0},
		{"{\"apiVersion\":\"" V1 "\",\"status\":{\"clientKeyData\":\"k\"}}",
		 CAIRN_UNAUTHENTICATED},
		{"{\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"t\",\"clientKeyData\":\"k\"}}",
		 CAIRN_UNAUTHENTICATED},
		{"{\"apiVersion\":\"" V1 "beta1\",\"status\":{\"token\":\"t\"}}",
		 CAIRN_UNAUTHENTICATED},
		{"{\"apiVersion\":\"" V1 "\"}", CAIRN_UNAUTHENTICATED},
		{"{\"apiVersion\":\"" V1 "\",\"status\":{\"token\":\"t\","
		 "\"expirationTimestamp\":\"soon\"}}",
		 CAIRN_UNAUTHENTICATED},
		{"", CAIRN_UNAUTHENTICATED},
		{"please log in", CAIRN_UNAUTHENTICATED},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_exec_answer answer = {0};
		struct cairn_err err = {0};

		assert_code(
			kube_exec_parse(cases[i].text, strlen(cases[i].text), V1, &answer, &err),
			cases[i].code);
		kube_exec_answer_done(&answer);
	}
}

static int run_plugin(const struct scene *scene, const char *script, uint64_t ms,
		      struct kube_exec_answer *answer, struct cairn_err *err)
{
	const struct kube_deadline patience = {.deadline_ns =
						       cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS};
	struct kube_config *config;
	char text[512];
	int rc;

	write_file(scene, "plugin", script);
	snprintf(text, sizeof(text),
		 BOTH "    exec: {apiVersion: " V1 ", command: sh, args: [%s/plugin], "
		      "interactiveMode: Never, env: [{name: WORD, value: sesame}]}\n",
		 scene->dir);
	config = parse(text);
	rc = kube_exec_run(config, &patience, answer, err);
	kube_config_free(config);
	return rc;
}

static void a_plugin_is_run_with_its_environment(void **state)
{
	struct kube_exec_answer answer = {0};
	struct cairn_err err = {0};

	assert_ok(run_plugin(*state,
			     "test -n \"$KUBERNETES_EXEC_INFO\" || exit 1\n"
			     "echo \"{\\\"apiVersion\\\":\\\"" V1
			     "\\\",\\\"status\\\":{\\\"token\\\":\\\"$WORD\\\"}}\"\n",
			     20000, &answer, &err),
		  &err);
	assert_string_equal(answer.token, "sesame");
	assert_true(answer.expires_ns == UINT64_MAX);
	kube_exec_answer_done(&answer);
}

static void a_plugin_that_hangs_or_floods_is_ended(void **state)
{
	struct kube_exec_answer answer = {0};
	struct cairn_err err = {0};

	assert_code(run_plugin(*state, "exec sleep 600\n", 200, &answer, &err), CAIRN_DEADLINE);
	assert_code(run_plugin(*state, "exec >&-\nexec sleep 600\n", 200, &answer, &err),
		    CAIRN_DEADLINE);
	assert_code(run_plugin(*state, "exec yes\n", 60000, &answer, &err), CAIRN_UNAUTHENTICATED);
	assert_code(run_plugin(*state, "kill -9 $$\n", 20000, &answer, &err),
		    CAIRN_UNAUTHENTICATED);
}

static void nothing_leaks_or_breaks_without_memory(void **state)
{
	static const char text[] = BOTH "    token: t\n    as: a\n    as-groups: [g]\n"
					"    exec: {command: ./p, args: [x], env: []}\n";

	(void)state;
	for (size_t n = 1; n < 300; n++) {
		struct kube_config *config = NULL;
		struct kube_credentials *credentials = NULL;
		struct kube_identity *identity = NULL;
		const struct kube_deadline patience = {.deadline_ns = UINT64_MAX};
		struct cairn_err err = {0};
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = kube_config_parse(text, sizeof(text) - 1, "/dir/f", NULL, &config, &err);
		if (!rc)
			rc = kube_credentials_new(config, &credentials, &err);
		if (!rc)
			rc = kube_credentials_get(credentials, &patience, &identity, &err);
		cairn_mem_fail_at(0, 0);
		assert_true(rc <= 0);
		kube_identity_unref(identity);
		kube_credentials_free(credentials);
		kube_config_free(config);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_is_read_as_it_is_written),
		cmocka_unit_test(files_are_those_beside_the_kubeconfig),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(aliases_are_followed_and_do_not_multiply),
		cmocka_unit_test_setup_teardown(several_files_are_one_and_the_first_wins, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_that_is_named_must_be_there, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_home_is_looked_at_before_the_pod, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_pod_without_a_token_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_token_file_that_vanishes_leaves_the_last_good_one,
						set_up, tear_down),
		cmocka_unit_test(a_fixed_token_is_not_worth_reading_again),
		cmocka_unit_test(a_token_that_would_be_two_fields_is_not_sent),
		cmocka_unit_test(a_plugins_answer_is_judged),
		cmocka_unit_test_setup_teardown(a_plugin_is_run_with_its_environment, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_plugin_that_hangs_or_floods_is_ended, set_up,
						tear_down),
		cmocka_unit_test(nothing_leaks_or_breaks_without_memory),
	};

	kube_global_init();
	return cmocka_run_group_tests_name("kube/config", tests, NULL, NULL);
}
