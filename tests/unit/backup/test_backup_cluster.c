/* SPDX-License-Identifier: Apache-2.0 */

/* Objects that backups in a cluster make, and what they read from others. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_log.h"
#include "backup/cluster/cluster_objects.h"
#include "backup/cluster/cluster_watch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define MONDAY (1794814500ULL * CAIRN_NS_PER_SEC) /* 2026-11-16T07:35:00Z */

static json_t *parse(const char *text)
{
	struct cairn_err err = {0};
	json_t *json = NULL;

	assert_ok(kube_json_parse(text, strlen(text), &json, &err), &err);
	return json;
}

static struct cluster_names names_of(const char *claim)
{
	struct cluster_names names;
	struct cairn_err err = {0};

	assert_ok(backup_cluster_names_make("shop", claim, CLUSTER_ROLE_CREATE, "secret", MONDAY,
					    &names, &err),
		  &err);
	return names;
}

/* --- names --- */

static void names_fit_whatever_the_claim_is_called(void **state)
{
	static const char *const claims[] = {
		"data",
		"data.of.a.stateful-set-0",
		"a-very-long-name-of-a-claim-with-many-words-and-more-of-them-and-still-more-x",
		"ends-with-dots-where-it-is-cut.......................",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
		struct cluster_names names = names_of(claims[i]);

		/* a Job's name is a label of its pods, and "-d" may follow */
		assert_true(strlen(names.name) + 2 <= 63);
		assert_int_equal(strncmp(names.name, "cairn-", 6), 0);
		assert_null(strstr(names.name, "--"));
		assert_null(strpbrk(names.name, "./_"));
		assert_int_equal(strlen(names.key), CLUSTER_KEY_MAX - 1);
	}
}

static void two_runs_have_two_names_and_one_key(void **state)
{
	struct cluster_names a = names_of("data");
	struct cluster_names b = names_of("data");
	struct cluster_names c = names_of("data2");
	char selector[256];
	char wanted[256];

	(void)state;
	assert_string_not_equal(a.name, b.name);
	assert_string_equal(a.key, b.key);
	assert_string_not_equal(a.key, c.key);
	assert_code(backup_cluster_selector(&a, "base", selector, sizeof(selector), NULL), 0);
	snprintf(wanted, sizeof(wanted), "cairn.csi.dev/claim=%s,cairn.csi.dev/backup=base", a.key);
	assert_string_equal(selector, wanted);
	assert_code(backup_cluster_selector(&a, "base", selector, 10, NULL), CAIRN_NO_SPACE);
}

/* --- objects --- */

static const char *const some_args[] = {"backup", "create", NULL};

static void assert_restricted(const json_t *pod)
{
	const json_t *context = kube_at(pod, "securityContext");
	int64_t user = 0;

	assert_true(kube_is(context, "runAsNonRoot"));
	assert_true(kube_i64(context, &user, "runAsUser"));
	assert_int_equal(user, CLUSTER_USER);
	assert_string_equal(kube_str(context, "seccompProfile", "type"), "RuntimeDefault");
}

/* The kubelet gives the files of every volume of the pod to fsGroup. */
static void only_a_repository_is_given_to_the_group_of_the_job(void **state)
{
	struct cluster_names names = names_of("data");
	struct cluster_job_spec spec = {.names = &names, .image = "i", .args = some_args};
	kube_auto_json json_t *mounted = NULL;
	kube_auto_json json_t *stored = NULL;
	int64_t group = 0;

	(void)state;
	spec.mount_claim = "restored";
	assert_code(backup_cluster_job(&spec, &mounted, NULL), 0);
	assert_restricted(kube_at(mounted, "spec", "template", "spec"));
	assert_null(kube_at(mounted, "spec", "template", "spec", "securityContext", "fsGroup"));
	spec.mount_claim = NULL;
	spec.repository_claim = "repository";
	assert_code(backup_cluster_job(&spec, &stored, NULL), 0);
	assert_true(
		kube_i64(stored, &group, "spec", "template", "spec", "securityContext", "fsGroup"));
	assert_int_equal(group, CLUSTER_USER);
}

static void a_job_has_an_end_and_only_the_rights_it_needs(void **state)
{
	struct cluster_names names = names_of("data");
	struct cluster_job_spec spec = {
		.names = &names,
		.image = "localhost/cairn:1",
		.args = some_args,
		.service_account = "reader",
		.asks_kubernetes = true,
		.secret = "repository",
		.ca_key = "ca.pem",
		.repository = "s3:https://host/bucket",
		.device_claim = "from-snapshot",
		.objects = "{}",
		.deadline_s = 100,
		.keep_s = 60,
	};
	kube_auto_json json_t *job = NULL;
	struct cairn_err err = {0};
	const json_t *pod;
	const json_t *c;
	int64_t n = 0;
	bool automount = false;

	(void)state;
	assert_ok(backup_cluster_job(&spec, &job, &err), &err);
	assert_string_equal(kube_str(job, "kind"), "Job");
	assert_true(kube_i64(job, &n, "spec", "activeDeadlineSeconds"));
	assert_int_equal(n, 100);
	assert_true(kube_i64(job, &n, "spec", "ttlSecondsAfterFinished"));
	assert_int_equal(n, 60);
	pod = kube_at(job, "spec", "template", "spec");
	assert_string_equal(kube_str(pod, "serviceAccountName"), "reader");
	assert_true(kube_bool(pod, &automount, "automountServiceAccountToken"));
	assert_true(automount);
	c = json_array_get(kube_at(pod, "containers"), 0);
	assert_false(kube_is(c, "securityContext", "allowPrivilegeEscalation"));
	assert_true(kube_is(c, "securityContext", "readOnlyRootFilesystem"));
	assert_string_equal(json_string_value(json_array_get(
				    kube_at(c, "securityContext", "capabilities", "drop"), 0)),
			    "ALL");
	assert_restricted(pod);
	assert_non_null(kube_str(c, "resources", "limits", "memory"));
	assert_non_null(kube_str(c, "resources", "limits", "cpu"));
	assert_int_equal(json_integer_value(json_array_get(
				 kube_at(pod, "securityContext", "supplementalGroups"), 0)),
			 CLUSTER_DISK_GROUP);
	assert_null(kube_at(pod, "securityContext", "fsGroup"));
	assert_string_equal(kube_str(json_array_get(kube_at(c, "envFrom"), 0), "secretRef", "name"),
			    "repository");
	assert_string_equal(kube_str(json_array_get(kube_at(c, "volumeDevices"), 0), "devicePath"),
			    CLUSTER_DEVICE);
	assert_int_equal(json_array_size(kube_at(pod, "volumes")), 3); /* device, ca, objects */
	assert_string_equal(kube_str(job, "spec", "template", "metadata", "annotations",
				     CLUSTER_ANNOTATION_STORED),
			    "{}");
}

static void a_job_that_asks_nothing_of_kubernetes_gets_no_token(void **state)
{
	struct cluster_names names = names_of("data");
	struct cluster_job_spec spec = {.names = &names, .image = "i", .args = some_args};
	kube_auto_json json_t *job = NULL;
	bool automount = true;

	(void)state;
	assert_code(backup_cluster_job(&spec, &job, NULL), 0);
	assert_true(kube_bool(job, &automount, "spec", "template", "spec",
			      "automountServiceAccountToken"));
	assert_false(automount);
	assert_null(kube_at(job, "spec", "template", "spec", "volumes"));
	assert_null(kube_at(job, "metadata", "ownerReferences"));
}

static void only_what_passes_is_tried_again(void **state)
{
	struct cluster_names names = names_of("data");
	struct cluster_job_spec spec = {.names = &names, .image = "i", .args = some_args};
	kube_auto_json json_t *job = NULL;
	const json_t *codes;
	size_t i;
	json_t *code;
	bool wrong_password = false;

	(void)state;
	assert_code(backup_cluster_job(&spec, &job, NULL), 0);
	codes = kube_at(json_array_get(kube_at(job, "spec", "podFailurePolicy", "rules"), 1),
			"onExitCodes", "values");
	assert_true(json_array_size(codes) > 0);
	json_array_foreach(codes, i, code)
	{
		json_int_t value = json_integer_value(code);

		assert_true(value != 0 && value != -CAIRN_UNAVAILABLE && value != -CAIRN_ABORTED);
		wrong_password = wrong_password || value == -CAIRN_UNAUTHENTICATED;
	}
	assert_true(wrong_password);
}

static void a_patch_changes_a_job_but_not_its_name(void **state)
{
	struct cluster_names names = names_of("data");
	kube_auto_json json_t *patch =
		parse("{\"spec\":{\"backoffLimit\":null,\"template\":{\"spec\":{"
		      "\"nodeSelector\":{\"a\":\"b\"}}}}}");
	kube_auto_json json_t *rename = parse("{\"metadata\":{\"name\":\"other\"}}");
	kube_auto_json json_t *none = parse("[1]");
	struct cluster_job_spec spec = {
		.names = &names, .image = "i", .args = some_args, .patch = patch};
	kube_auto_json json_t *job = NULL;

	(void)state;
	assert_code(backup_cluster_job(&spec, &job, NULL), 0);
	assert_null(kube_at(job, "spec", "backoffLimit"));
	assert_string_equal(kube_str(job, "spec", "template", "spec", "nodeSelector", "a"), "b");
	assert_non_null(kube_at(job, "spec", "template", "spec", "containers"));
	json_decref(job);
	job = NULL;
	spec.patch = rename;
	assert_code(backup_cluster_job(&spec, &job, NULL), CAIRN_INVALID);
	spec.patch = none;
	assert_code(backup_cluster_job(&spec, &job, NULL), CAIRN_INVALID);
	assert_null(job);
}

static void a_patch_that_is_too_deep_is_refused(void **state)
{
	char text[CLUSTER_PATCH_DEPTH * 5 + 64] = "";
	kube_auto_json json_t *target = json_object();
	kube_auto_json json_t *patch = NULL;

	(void)state;
	for (unsigned i = 0; i <= CLUSTER_PATCH_DEPTH; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "{\"a\":");
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "1");
	for (unsigned i = 0; i <= CLUSTER_PATCH_DEPTH; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "}");
	patch = parse(text);
	assert_code(backup_cluster_merge(target, patch, NULL), CAIRN_INVALID);
}

static void claims_and_snapshots_belong_to_the_job(void **state)
{
	struct cluster_names names = names_of("data");
	kube_auto_json json_t *job = parse("{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\","
					   "\"metadata\":{\"name\":\"j\",\"uid\":\"u1\"}}");
	struct cluster_claim_spec spec = {
		.names = &names,
		.storage_class = "fast",
		.mode = "Block",
		.size = "64Mi",
		.snapshot = "monday",
		.owner = job,
	};
	kube_auto_json json_t *claim = NULL;
	kube_auto_json json_t *snapshot = NULL;
	const json_t *owner;

	(void)state;
	assert_code(backup_cluster_claim(&spec, &claim, NULL), 0);
	assert_code(backup_cluster_snapshot(&names, "data", "class", job, &snapshot, NULL), 0);
	assert_string_equal(kube_name(claim), names.name);
	assert_string_equal(kube_str(claim, "spec", "dataSource", "name"), "monday");
	assert_string_equal(kube_str(claim, "spec", "resources", "requests", "storage"), "64Mi");
	assert_string_equal(kube_label(claim, CLUSTER_LABEL_RUN), names.run);
	assert_string_equal(kube_annotation(snapshot, CLUSTER_ANNOTATION_OF), "data");
	assert_string_equal(kube_str(snapshot, "spec", "source", "persistentVolumeClaimName"),
			    "data");
	owner = json_array_get(kube_at(claim, "metadata", "ownerReferences"), 0);
	assert_string_equal(kube_str(owner, "uid"), "u1");
	assert_string_equal(kube_str(owner, "apiVersion"), "batch/v1");
	assert_false(kube_is(owner, "blockOwnerDeletion"));
}

static void objects_survive_any_allocation_that_fails(void **state)
{
	struct cluster_names names = names_of("data");
	kube_auto_json json_t *owner = parse("{\"metadata\":{\"name\":\"j\",\"uid\":\"u\"}}");
	struct cluster_job_spec spec = {.names = &names,
					.image = "i",
					.args = some_args,
					.owner = owner,
					.node_affinity = owner,
					.device_claim = "c",
					.secret = "s"};
	int rc = CAIRN_NO_SPACE;

	(void)state;
	for (size_t n = 1; rc == CAIRN_NO_SPACE && n < 100; n++) {
		kube_auto_json json_t *job = NULL;

		cairn_mem_fail_at(n, 1);
		rc = backup_cluster_job(&spec, &job, NULL);
		cairn_mem_fail_at(0, 0);
		assert_true(rc == 0 || (rc == CAIRN_NO_SPACE && !job));
	}
	assert_code(rc, 0);
}

/* --- what is kept --- */

static void what_is_kept_can_be_made_again_elsewhere(void **state)
{
	kube_auto_json json_t *claim = parse(
		"{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{"
		"\"name\":\"data\",\"namespace\":\"shop\",\"uid\":\"u\",\"resourceVersion\":\"7\","
		"\"creationTimestamp\":\"2026-11-16T07:35:00Z\",\"managedFields\":[{}],"
		"\"finalizers\":[\"kubernetes.io/pvc-protection\"],\"ownerReferences\":[{}],"
		"\"labels\":{\"app\":\"db\"},\"annotations\":{"
		"\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\","
		"\"pv.kubernetes.io/bind-completed\":\"yes\",\"team\":\"blue\"}},"
		"\"spec\":{\"volumeName\":\"pv-1\",\"storageClassName\":\"fast\"},"
		"\"status\":{\"phase\":\"Bound\",\"capacity\":{\"storage\":\"1Gi\"}}}");
	kube_auto_json json_t *volume =
		parse("{\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"pv-1\"},\"spec\":{"
		      "\"claimRef\":{\"name\":\"data\",\"uid\":\"u\",\"resourceVersion\":\"3\"},"
		      "\"csi\":{\"volumeHandle\":\"v\"}},\"status\":{\"phase\":\"Bound\"}}");
	kube_auto_json json_t *kept = backup_cluster_sanitised(claim);
	kube_auto_json json_t *kept_volume = backup_cluster_sanitised(volume);
	kube_auto_json json_t *metadata =
		parse("{\"name\":\"data\",\"namespace\":\"shop\",\"labels\":{\"app\":\"db\"},"
		      "\"annotations\":{\"team\":\"blue\"}}");
	kube_auto_json json_t *status = parse("{\"capacity\":{\"storage\":\"1Gi\"}}");

	(void)state;
	assert_true(json_equal(kube_at(kept, "metadata"), metadata));
	assert_true(json_equal(kube_at(kept, "status"), status));
	assert_string_equal(kube_str(kept, "spec", "storageClassName"), "fast");
	assert_string_equal(kube_str(kept_volume, "spec", "claimRef", "name"), "data");
	assert_null(kube_at(kept_volume, "spec", "claimRef", "uid"));
	assert_null(kube_at(kept_volume, "status"));
	assert_string_equal(kube_str(kept_volume, "spec", "csi", "volumeHandle"), "v");
	/* the original is as it was */
	assert_string_equal(kube_uid(claim), "u");
}

static void quantities_are_bytes(void **state)
{
	static const struct {
		const char *text;
		bool good;
		uint64_t bytes;
	} cases[] = {
		{"0", true, 0},
		{"64Mi", true, 64ULL << 20},
		{"1.5Gi", true, 3ULL << 29},
		{"10G", true, 10000000000ULL},
		{"1073741824", true, 1ULL << 30},
		{"1500m", true, 2},
		{"8Ei", false, 0},
		{"", false, 0},
		{"Mi", false, 0},
		{"-1", false, 0},
		{"5Xi", false, 0},
		{"5 Mi", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t bytes = 0;

		assert_int_equal(backup_cluster_quantity(cases[i].text, &bytes), cases[i].good);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void the_class_is_the_default_or_the_only_one(void **state)
{
	static const char two[] =
		"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"driver\":\"d\"},"
		"{\"metadata\":{\"name\":\"b\",\"annotations\":{"
		"\"snapshot.storage.kubernetes.io/is-default-class\":\"true\"}},\"driver\":\"d\"},"
		"{\"metadata\":{\"name\":\"c\"},\"driver\":\"e\"},"
		"{\"metadata\":{\"name\":\"f\"},\"driver\":\"g\"},"
		"{\"metadata\":{\"name\":\"h\"},\"driver\":\"g\"}]}";
	kube_auto_json json_t *list = parse(two);
	const char *found = NULL;

	(void)state;
	assert_code(backup_cluster_pick_class(list, "d", &found, NULL), 0);
	assert_string_equal(found, "b");
	assert_code(backup_cluster_pick_class(list, "e", &found, NULL), 0);
	assert_string_equal(found, "c");
	assert_code(backup_cluster_pick_class(list, "g", &found, NULL), CAIRN_PRECONDITION);
	assert_code(backup_cluster_pick_class(list, "none", &found, NULL), CAIRN_NOT_FOUND);
}

/* --- what others say --- */

static void a_job_says_how_it_stands(void **state)
{
	static const struct {
		const char *text;
		enum backup_cluster_job_state want;
		const char *why;
	} cases[] = {
		{"{}", CLUSTER_JOB_RUNNING, ""},
		{"{\"status\":{\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]}}",
		 CLUSTER_JOB_COMPLETE, ""},
		{"{\"status\":{\"conditions\":[{\"type\":\"Failed\",\"status\":\"False\"}]}}",
		 CLUSTER_JOB_RUNNING, ""},
		{"{\"status\":{\"conditions\":[{\"type\":\"FailureTarget\",\"status\":\"True\"},"
		 "{\"type\":\"Failed\",\"status\":\"True\",\"message\":\"too late\"}]}}",
		 CLUSTER_JOB_FAILED, "too late"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *job = parse(cases[i].text);
		const char *why = NULL;

		assert_int_equal(backup_cluster_job_state(job, &why), cases[i].want);
		assert_string_equal(why, cases[i].why);
	}
}

#define POD(status)   "{\"status\":{" status "}}"
#define STATE(inside) POD("\"containerStatuses\":[{\"state\":{" inside "}}]")

static void a_pod_says_why_it_does_not_run(void **state)
{
	static const struct {
		const char *text;
		bool started, hopeless;
		const char *reason;
	} cases[] = {
		{POD(""), false, false, ""},
		{POD("\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
		     "\"reason\":\"Unschedulable\",\"message\":\"no node\"}]"),
		 false, false, "Unschedulable"},
		{STATE("\"waiting\":{\"reason\":\"ContainerCreating\"}"), false, false,
		 "ContainerCreating"},
		{STATE("\"waiting\":{\"reason\":\"CreateContainerConfigError\","
		       "\"message\":\"no secret\"}"),
		 false, true, "CreateContainerConfigError"},
		{STATE("\"running\":{}"), true, false, ""},
		{STATE("\"terminated\":{\"reason\":\"OOMKilled\"}"), true, false, "OOMKilled"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *pod = parse(cases[i].text);
		struct cluster_pod view = backup_cluster_pod_look(pod);

		assert_int_equal(view.started, cases[i].started);
		assert_int_equal(view.hopeless, cases[i].hopeless);
		assert_string_equal(view.reason, cases[i].reason);
	}
}

static void the_newest_pod_counts(void **state)
{
	kube_auto_json json_t *list = parse(
		"{\"items\":[{\"metadata\":{\"name\":\"a\","
		"\"creationTimestamp\":\"2026-11-16T07:35:02Z\"}},{\"metadata\":{\"name\":\"b\","
		"\"creationTimestamp\":\"2026-11-16T07:35:09Z\"}},{\"metadata\":{\"name\":\"c\","
		"\"creationTimestamp\":\"2026-11-16T07:35:01Z\"}}]}");
	kube_auto_json json_t *none = parse("{\"items\":[]}");

	(void)state;
	assert_string_equal(kube_name(backup_cluster_newest(list)), "b");
	assert_null(backup_cluster_newest(none));
}

/* --- logs --- */

struct heard {
	unsigned progress, remarks, results, errors;
	const char *step;
	uint64_t done;
	char text[CLUSTER_LOG_TEXT_MAX];
};

static void hear(void *arg, const struct cluster_log_event *event)
{
	struct heard *heard = arg;

	heard->progress += event->kind == CLUSTER_LOG_PROGRESS;
	heard->remarks += event->kind == CLUSTER_LOG_REMARK;
	heard->results += event->kind == CLUSTER_LOG_RESULT;
	heard->errors += event->kind == CLUSTER_LOG_ERROR;
	if (event->kind == CLUSTER_LOG_PROGRESS) {
		heard->step = event->step;
		heard->done = event->done;
	}
	if (event->text)
		snprintf(heard->text, sizeof(heard->text), "%s", event->text);
}

#define AT(second, line) "2026-11-16T07:35:0" second "Z " line "\n"

static void take(struct cluster_log *log, const char *text)
{
	backup_cluster_log_take(log, text, strlen(text));
}

static void a_log_is_told_once_however_often_it_is_read(void **state)
{
	static const char first[] = AT("1.000000001", "{\"event\":\"remark\",\"text\":\"hello\"}")
		AT("2.5", "{\"event\":\"progress\",\"step\":\"reading\",\"bytes_done\":7}");
	static const char second[] =
		AT("2.5", "{\"event\":\"progress\",\"step\":\"reading\",\"bytes_done\":7}")
			AT("2.6", "{\"event\":\"progress\",\"step\":\"reading\",\"bytes_done\":9}")
				AT("3.0", "{\"event\":\"summary\",\"id\":\"x\"}");
	struct heard heard = {0};
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {.tell = hear,
									 .arg = &heard};
	const char *step;

	(void)state;
	take(&log, first);
	step = heard.step;
	take(&log, second);
	assert_int_equal(heard.remarks, 1);
	assert_int_equal(heard.progress, 2);
	assert_int_equal(heard.results, 1);
	assert_int_equal(heard.done, 9);
	assert_ptr_equal(heard.step, step);
	assert_string_equal(kube_str(log.result, "id"), "x");
	backup_cluster_log_restart(&log);
	assert_null(log.result);
	take(&log, first);
	assert_int_equal(heard.remarks, 2);
}

static void lines_of_one_time_are_all_told_once(void **state)
{
#define SAME(n) AT("2.5", "{\"event\":\"remark\",\"text\":\"" n "\"}")
	struct heard heard = {0};
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {.tell = hear,
									 .arg = &heard};

	(void)state;
	take(&log, SAME("1") SAME("2"));
	assert_int_equal(heard.remarks, 2);
	take(&log, SAME("1") SAME("2") SAME("3"));
	assert_int_equal(heard.remarks, 3);
	assert_string_equal(heard.text, "3");
	take(&log, SAME("1") SAME("2") SAME("3") AT("2.6", "{\"event\":\"summary\"}"));
	assert_int_equal(heard.remarks, 3);
	assert_int_equal(heard.results, 1);
#undef SAME
}

static void an_error_keeps_its_code(void **state)
{
	struct heard heard = {0};
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {.tell = hear,
									 .arg = &heard};

	(void)state;
	take(&log, AT("1", "{\"error\":\"UNAUTHENTICATED\",\"exit_status\":16,"
			   "\"message\":\"wrong password\"}"));
	assert_int_equal(log.code, CAIRN_UNAUTHENTICATED);
	assert_string_equal(log.error, "wrong password");
	assert_int_equal(heard.errors, 1);
}

static void what_is_no_event_is_kept_as_text_and_harmless(void **state)
{
	static const char text[] = AT("1", "panic: \033[2J") "no time here\n" AT("2", "{broken")
		AT("3", "[1,2]") AT("4", "");
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {0};

	(void)state;
	take(&log, AT("1", "panic: \033[2J"));
	assert_string_equal(log.last_text, "panic: ?[2J");
	backup_cluster_log_restart(&log);
	take(&log, text);
	assert_string_equal(log.last_text, "[1,2]");
	assert_null(log.result);
	assert_int_equal(log.code, 0);
}

static void steps_without_number_do_not_fill_memory(void **state)
{
	struct heard heard = {0};
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {.tell = hear,
									 .arg = &heard};
	char line[200];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		snprintf(line, sizeof(line),
			 "2026-11-16T07:35:%02uZ {\"event\":\"progress\",\"step\":\"s%u\"}\n",
			 i + 1, i);
		take(&log, line);
	}
	assert_int_equal(heard.progress, 50);
	assert_string_equal(heard.step, "working");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_fit_whatever_the_claim_is_called),
		cmocka_unit_test(two_runs_have_two_names_and_one_key),
		cmocka_unit_test(a_job_has_an_end_and_only_the_rights_it_needs),
		cmocka_unit_test(only_a_repository_is_given_to_the_group_of_the_job),
		cmocka_unit_test(a_job_that_asks_nothing_of_kubernetes_gets_no_token),
		cmocka_unit_test(only_what_passes_is_tried_again),
		cmocka_unit_test(a_patch_changes_a_job_but_not_its_name),
		cmocka_unit_test(a_patch_that_is_too_deep_is_refused),
		cmocka_unit_test(claims_and_snapshots_belong_to_the_job),
		cmocka_unit_test(objects_survive_any_allocation_that_fails),
		cmocka_unit_test(what_is_kept_can_be_made_again_elsewhere),
		cmocka_unit_test(quantities_are_bytes),
		cmocka_unit_test(the_class_is_the_default_or_the_only_one),
		cmocka_unit_test(a_job_says_how_it_stands),
		cmocka_unit_test(a_pod_says_why_it_does_not_run),
		cmocka_unit_test(the_newest_pod_counts),
		cmocka_unit_test(a_log_is_told_once_however_often_it_is_read),
		cmocka_unit_test(lines_of_one_time_are_all_told_once),
		cmocka_unit_test(an_error_keeps_its_code),
		cmocka_unit_test(what_is_no_event_is_kept_as_text_and_harmless),
		cmocka_unit_test(steps_without_number_do_not_fill_memory),
	};

	return cmocka_run_group_tests_name("backup/cluster", tests, NULL, NULL);
}
