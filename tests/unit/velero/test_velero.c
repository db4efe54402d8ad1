/* SPDX-License-Identifier: Apache-2.0 */

/* What of the Velero plugin needs no Velero and no API server. */

#include "cairntest.h"

#include <string.h>

#include "json_text.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/arguments.h"
#include "velero/claim_snapshot.h"
#include "velero/go_duration.h"
#include "velero/handshake.h"
#include "velero/pod_volumes.h"
#include "velero/restore_order.h"
#include "velero/snapshot_class.h"
#include "velero/snapshot_id.h"
#include "velero/velero_names.h"
#include "velero/volume_policy.h"

static void names_that_velero_derives(void **state)
{
	char label[VELERO_LABEL_VALUE_MAX], restored[VELERO_RESTORED_NAME_MAX];
	struct cairn_err err = {0};
	char exact[64];

	(void)state;
	assert_ok(
		velero_label_value("this-is-a-very-long-backup-name-that-goes-well-past-the-sixty-"
				   "three-character-limit-of-labels",
				   label, &err),
		&err);
	assert_string_equal(label,
			    "this-is-a-very-long-backup-name-that-goes-well-past-the-s91832e");
	memset(exact, 'a', 63);
	exact[63] = '\0';
	assert_ok(velero_label_value(exact, label, &err), &err);
	assert_string_equal(label, exact);
	assert_ok(velero_restored_name("11111111-2222-3333-4444-555555555555",
				       "velero-data-0-abcde", restored, &err),
		  &err);
	assert_string_equal(restored,
			    "392ce5c3a8c80eace6505f305d47eaa484471ad095a1400a67a15e37a89c6840");
}

static void durations_are_those_of_go(void **state)
{
	static const struct {
		const char *text;
		bool taken;
		uint64_t ms;
	} cases[] = {
		{"10m0s", true, 600000},
		{"1h2m3s", true, 3723000},
		{"500ms", true, 500},
		{"1.5s", true, 1500},
		{"2us", true, 0},
		{"0", true, 0},
		{"0s", true, 0},
		{"", false, 0},
		{"10", false, 0},
		{"-5s", false, 0},
		{"5x", false, 0},
		{"s", false, 0},
		{"99999999999h", false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ms = 77;

		assert_int_equal(velero_go_duration(cases[i].text, &ms), cases[i].taken);
		assert_int_equal(ms, cases[i].taken ? cases[i].ms : 77);
	}
}

static void flags_of_the_server_are_read_and_others_passed_over(void **state)
{
	const char *given[] = {
		"/plugins/x",   "--log-level", "debug",     "--features=A,EnableCSI,B",
		"--kubeconfig", "/k",          "--unknown", "--features-x=EnableCSI"};
	const char *without[] = {"/plugins/x", "--features=EnableCSIx", "--log-level=nonsense",
				 "--kubeconfig"};
	struct velero_arguments read =
		velero_arguments_read(ARRAY_LEN(given), (char *const *)(uintptr_t)given);

	(void)state;
	assert_true(read.csi_enabled);
	assert_string_equal(read.kubeconfig, "/k");
	assert_int_equal(read.log_level, CAIRN_LOG_DEBUG);
	read = velero_arguments_read(ARRAY_LEN(without), (char *const *)(uintptr_t)without);
	assert_false(read.csi_enabled);
	assert_null(read.kubeconfig);
	assert_int_equal(read.log_level, CAIRN_LOG_ERROR);
}

static const char *cookie, *versions, *certificate;

static char *scripted_getenv(const char *name)
{
	const char *value = strcmp(name, "VELERO_PLUGIN") == 0              ? cookie
			    : strcmp(name, "PLUGIN_PROTOCOL_VERSIONS") == 0 ? versions
			    : strcmp(name, "PLUGIN_CLIENT_CERT") == 0       ? certificate
									    : NULL;

	return (char *)(uintptr_t)value;
}

static void the_handshake_is_for_velero_of_this_version_without_tls(void **state)
{
	static const struct {
		const char *cookie, *versions, *certificate;
		int code;
	} cases[] = {
		{"hello", "2", NULL, 0},
		{"hello", "1,2,3", "", 0},
		{"hello", NULL, NULL, 0},
		{NULL, "2", NULL, CAIRN_PRECONDITION},
		{"hallo", "2", NULL, CAIRN_PRECONDITION},
		{"hello", "3", NULL, CAIRN_UNIMPLEMENTED},
		{"hello", "22", NULL, CAIRN_UNIMPLEMENTED},
		{"hello", "2", "-----BEGIN", CAIRN_UNIMPLEMENTED},
	};
	char line[VELERO_HANDSHAKE_MAX], longest[300];
	struct cairn_err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cookie = cases[i].cookie;
		versions = cases[i].versions;
		certificate = cases[i].certificate;
		assert_code(velero_handshake_check(scripted_getenv, &err), cases[i].code);
	}
	assert_ok(velero_handshake_line("/tmp/p", line, &err), &err);
	assert_string_equal(line, "1|2|unix|/tmp/p|grpc|\n");
	assert_code(velero_handshake_line("/tmp/a|b", line, &err), CAIRN_INVALID);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_code(velero_handshake_line(longest, line, &err), CAIRN_INVALID);
}

#define PV                                                                                    \
	"{'metadata':{'name':'pv'},'spec':{'capacity':{'storage':'10Gi'},'storageClassName':" \
	"'fast','csi':{'driver':'d.io','volumeAttributes':{'k':'v'}}}}"
#define PVC                                                                                 \
	"{'metadata':{'name':'c','namespace':'n','labels':{'a':'1'}},'spec':{'volumeMode':" \
	"'Block','accessModes':['ReadWriteOnce']},'status':{'phase':'Bound'}}"

static int match(const char *yaml, enum velero_policy_action *ret, struct cairn_err *err)
{
	kube_auto_json json_t *pv = json_text(PV), *pvc = json_text(PVC);
	kube_auto_json json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "policies",
					       "data", "policies.yaml", yaml);

	assert_non_null(map);
	return velero_policy_match(map, pv, pvc, ret, err);
}

static void volume_policies_match_as_velero_matches_them(void **state)
{
	static const struct {
		const char *conditions;
		bool matches;
	} cases[] = {
		{"{}", true},
		{"{csi: {}}", true},
		{"{csi: {driver: d.io}}", true},
		{"{csi: {driver: other}}", false},
		{"{csi: {driver: d.io, volumeAttributes: {k: v}}}", true},
		{"{csi: {driver: d.io, volumeAttributes: {k: w}}}", false},
		{"{nfs: {}}", false},
		{"{storageClass: [slow, fast]}", true},
		{"{storageClass: [slow]}", false},
		{"{storageClass: []}", true},
		{"{capacity: \"0,100Gi\"}", true},
		{"{capacity: \"10Gi,\"}", true},
		{"{capacity: \",10Gi\"}", true},
		{"{capacity: \"11Gi,\"}", false},
		{"{capacity: \"1Gi, 9Gi\"}", false},
		{"{volumeTypes: [nfs, csi]}", true},
		{"{volumeTypes: [nfs]}", false},
		{"{pvcLabels: {a: \"1\"}}", true},
		{"{pvcLabels: {a: \"2\"}}", false},
		{"{pvcPhase: [Bound]}", true},
		{"{pvcPhase: [Pending]}", false},
		{"{pvcVolumeMode: Block}", true},
		{"{pvcVolumeMode: Filesystem}", false},
		{"{pvcAccessModes: [ReadWriteOnce]}", true},
		{"{pvcAccessModes: [ReadWriteOnce, ReadOnlyMany]}", false},
		{"{storageClass: [fast], csi: {driver: other}}", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum velero_policy_action action = VELERO_POLICY_SKIP;
		struct cairn_err err = {0};
		char yaml[512];

		snprintf(
			yaml, sizeof(yaml),
			"version: v1\nvolumePolicies:\n- conditions: %s\n  action: {type: custom}\n",
			cases[i].conditions);
		assert_ok(match(yaml, &action, &err), &err);
		if (action != (cases[i].matches ? VELERO_POLICY_CUSTOM : VELERO_POLICY_NONE))
			fail_msg("%s gives %d", cases[i].conditions, action);
	}
}

static void the_first_policy_that_matches_decides(void **state)
{
	enum velero_policy_action action;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(match("volumePolicies:\n"
			"- {conditions: {csi: {driver: no}}, action: {type: skip}}\n"
			"- {conditions: {csi: {}}, action: {type: fs-backup}}\n"
			"- {conditions: {}, action: {type: snapshot}}\n",
			&action, &err),
		  &err);
	assert_int_equal(action, VELERO_POLICY_FS_BACKUP);
	assert_ok(match("version: v1\n", &action, &err), &err);
	assert_int_equal(action, VELERO_POLICY_NONE);
}

static void policies_that_are_not_understood_are_refused(void **state)
{
	static const char *const cases[] = {
		"volumePolicies: 5",
		"volumePolicies:\n- {conditions: {new: 1}, action: {type: skip}}",
		"volumePolicies:\n- {conditions: {}, action: {type: other}}",
		"volumePolicies:\n- {conditions: {}}",
		"volumePolicies:\n- {conditions: {capacity: 10Gi}, action: {type: skip}}",
		"volumePolicies:\n- {conditions: {capacity: \"x,y\"}, action: {type: skip}}",
		"volumePolicies:\n- {conditions: {csi: 1}, action: {type: skip}}",
		"volumePolicies:\n- {conditions: {storageClass: a}, action: {type: skip}}",
		"volumePolicies: [",
	};
	kube_auto_json json_t *two = json_text("{'metadata':{'name':'x'},'data':{'a':'','b':''}}");
	enum velero_policy_action action;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_code(match(cases[i], &action, &(struct cairn_err){0}), CAIRN_INVALID);
	assert_code(velero_policy_match(two, two, two, &action, NULL), CAIRN_INVALID);
}

static void pods_say_which_volumes_are_copied_as_files(void **state)
{
	static const struct {
		const char *annotations;
		bool by_default, all;
	} cases[] = {
		{"{}", false, true},
		{"{'backup.velero.io/backup-volumes':'x,data'}", true, true},
		{"{'backup.velero.io/backup-volumes':'datax'}", false, true},
		{"{'backup.velero.io/backup-volumes-excludes':'data'}", false, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[512];
		kube_auto_json json_t *pods = NULL;

		snprintf(text, sizeof(text),
			 "{'items':[{'metadata':{'annotations':{'backup.velero.io/backup-volumes':"
			 "'data'}},'spec':{'volumes':[{'name':'data'}]}},{'metadata':{"
			 "'annotations':%s},'spec':{'volumes':[{'name':'data',"
			 "'persistentVolumeClaim':{'claimName':'c'}}]}}]}",
			 cases[i].annotations);
		pods = json_text(text);
		assert_int_equal(velero_claim_copied_as_files(pods, "c", false),
				 cases[i].by_default);
		assert_int_equal(velero_claim_copied_as_files(pods, "c", true), cases[i].all);
		assert_false(velero_claim_copied_as_files(pods, "other", false));
	}
}

#define CLASSES                                                                             \
	"{'items':["                                                                        \
	"{'metadata':{'name':'other','labels':{'velero.io/csi-volumesnapshot-class':'1'}}," \
	"'driver':'o.io'},"                                                                 \
	"{'metadata':{'name':'plain'},'driver':'D.io'},"                                    \
	"{'metadata':{'name':'named'},'driver':'D.io'}%s]}"

static void the_snapshot_class_is_chosen_in_order(void **state)
{
	static const char labelled[] = ",{'metadata':{'name':'labelled','labels':{'velero.io/"
				       "csi-volumesnapshot-class':'true'}},'driver':'D.io'}";
	static const char is_default[] =
		",{'metadata':{'name':'default','annotations':{'snapshot.storage.kubernetes.io/"
		"is-default-class':'true'}},'driver':'D.io'}";
	static const struct {
		const char *more, *claim, *backup, *want, *missing;
		int code;
	} cases[] = {
		{labelled, "named", "plain", "named", NULL, 0},
		{labelled, NULL, "plain", "plain", NULL, 0},
		{labelled, "gone", NULL, "labelled", "gone", 0},
		{labelled, "other", NULL, "labelled", "other", 0},
		{is_default, NULL, NULL, "default", NULL, 0},
		{"", NULL, NULL, NULL, NULL, CAIRN_PRECONDITION},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct velero_class_choice choice = {0};
		char text[1024];

		snprintf(text, sizeof(text), CLASSES, cases[i].more);
		kube_auto_json json_t *classes = json_text(text);
		kube_auto_json json_t *claim =
			json_pack("{s:{s:{s:s*}}}", "metadata", "annotations",
				  "velero.io/csi-volumesnapshot-class", cases[i].claim);
		kube_auto_json json_t *backup =
			json_pack("{s:{s:{s:s*}}}", "metadata", "annotations",
				  "velero.io/csi-volumesnapshot-class_d.io", cases[i].backup);

		assert_code(velero_class_choose(classes, "D.io", claim, backup, &choice, NULL),
			    cases[i].code);
		if (cases[i].want)
			assert_string_equal(kube_name(choice.class_object), cases[i].want);
		if (cases[i].missing)
			assert_string_equal(choice.missing, cases[i].missing);
		else
			assert_null(choice.missing);
		assert_code(velero_class_choose(classes, "none", claim, backup, &choice, NULL),
			    CAIRN_NOT_FOUND);
		assert_ok(velero_class_choose(classes, "o.io", claim, backup, &choice, NULL),
			  &(struct cairn_err){0});
	}
}

static void only_a_backup_in_the_same_namespace_owns_a_snapshot(void **state)
{
	static const struct {
		const char *ns;
		bool owned;
	} cases[] = {{"velero", true}, {"shop", false}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *claim = json_pack("{s:{s:s, s:s}}", "metadata", "name",
							 "data", "namespace", cases[i].ns);
		kube_auto_json json_t *backup =
			json_text("{'metadata':{'name':'b1','namespace':'velero','uid':'u'},"
				  "'spec':{'storageLocation':'near'}}");
		kube_auto_json json_t *made = NULL;
		struct cairn_err err = {0};
		const json_t *owner;
		const struct velero_snapshot_wish wish = {
			.class_name = "fast", .role = VELERO_ROLE_ACTION, .volume = "pv"};

		assert_ok(velero_csi_snapshot_object(claim, backup, &wish, &made, &err), &err);
		assert_string_equal(kube_str(made, "metadata", "generateName"), "velero-data-");
		assert_string_equal(kube_label(made, "velero.io/backup-name"), "b1");
		assert_string_equal(kube_annotation(made, VELERO_ANNOTATION_LOCATION), "near");
		assert_string_equal(kube_str(made, "spec", "source", "persistentVolumeClaimName"),
				    "data");
		assert_string_equal(kube_str(made, "spec", "volumeSnapshotClassName"), "fast");
		owner = json_array_get(kube_at(made, "metadata", "ownerReferences"), 0);
		assert_int_equal(owner != NULL, cases[i].owned);
		if (owner) {
			assert_string_equal(kube_str(owner, "kind"), "Backup");
			assert_string_equal(kube_str(owner, "uid"), "u");
		}
	}
}

#define RESTORE                                                              \
	"{'metadata':{'name':'r','namespace':'velero','uid':"                \
	"'11111111-2222-3333-4444-555555555555'},'spec':{'backupName':'b1'," \
	"'namespaceMapping':{'shop':'copy'}%s}}"
#define RESTORED "392ce5c3a8c80eace6505f305d47eaa484471ad095a1400a67a15e37a89c6840"
#define LABELS                                              \
	"'labels':{'app':'x','velero.io/backup-name':'b1'," \
	"'velero.io/volume-snapshot-name':'velero-data-0-abcde'}"

struct restored {
	struct velero_world world;
	struct velero_request request;
	struct velero_outcome outcome;
	json_t *item, *restore;
};

/* Runs an action of restores that asks Kubernetes nothing. */
static int restore(struct restored *r, bool csi_enabled, const char *name, const char *item,
		   const char *more)
{
	const struct velero_action *action = velero_action_find(VELERO_RESTORE, name);
	char text[512];

	snprintf(text, sizeof(text), RESTORE, more);
	*r = (struct restored){.item = json_text(item), .restore = json_text(text)};
	velero_world_init(&r->world, "/nonexistent", csi_enabled);
	r->request = (struct velero_request){.world = &r->world,
					     .item = kube_copy(r->item),
					     .original = r->item,
					     .owner = r->restore};
	assert_non_null(action);
	return action->execute(&r->request, &r->outcome, &(struct cairn_err){0});
}

static void restored_done(struct restored *r)
{
	velero_world_done(&r->world);
	json_decref(r->request.item);
	json_decref(r->item);
	json_decref(r->restore);
}

#define CLAIM                                                                                  \
	"{'metadata':{'name':'data','namespace':'shop'," LABELS ",'annotations':{'keep':'me'," \
	"'pv.kubernetes.io/bind-completed':'yes'}},'spec':{'volumeName':'pv','dataSourceRef':{}}}"

static void a_claim_is_restored_from_its_snapshot(void **state)
{
	cairn_cleanup(restored_done) struct restored r;

	(void)state;
	assert_int_equal(restore(&r, false, VELERO_ACTION_PVC, CLAIM, ""), 0);
	assert_true(r.outcome.changed);
	assert_null(kube_at(r.request.item, "spec", "volumeName"));
	assert_null(kube_at(r.request.item, "spec", "dataSourceRef"));
	assert_string_equal(kube_str(r.request.item, "spec", "dataSource", "name"), RESTORED);
	assert_string_equal(kube_str(r.request.item, "spec", "dataSource", "kind"),
			    "VolumeSnapshot");
	assert_null(kube_annotation(r.request.item, "pv.kubernetes.io/bind-completed"));
	assert_string_equal(kube_annotation(r.request.item, "keep"), "me");
	assert_string_equal(kube_label(r.request.item, "app"), "x");
	assert_int_equal(r.outcome.n_related, 1);
	assert_string_equal(r.outcome.related[0].ns, "shop");
	assert_string_equal(r.outcome.related[0].name, "velero-data-0-abcde");
}

static void a_claim_without_a_snapshot_in_this_backup_is_left_alone(void **state)
{
	static const struct {
		const char *item;
		bool csi_enabled;
	} cases[] = {
		/* left over from an earlier restore */
		{"{'metadata':{'name':'data','labels':{'velero.io/backup-name':'b0',"
		 "'velero.io/volume-snapshot-name':'v'}}}",
		 false},
		/* Velero's own */
		{"{'metadata':{'name':'data'," LABELS
		 ",'annotations':{'velero.io/volume-snapshot-name':'v'}}}",
		 true},
		/* moved to the object store */
		{"{'metadata':{'name':'data'," LABELS
		 ",'annotations':{'velero.io/data-upload-name':'v'}}}",
		 false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(restored_done) struct restored r;

		assert_int_equal(
			restore(&r, cases[i].csi_enabled, VELERO_ACTION_PVC, cases[i].item, ""), 0);
		assert_false(r.outcome.changed);
		assert_int_equal(r.outcome.n_related, 0);
	}
}

static void without_volumes_a_claim_is_restored_empty(void **state)
{
	cairn_cleanup(restored_done) struct restored r;

	(void)state;
	assert_int_equal(restore(&r, false, VELERO_ACTION_PVC, CLAIM, ",'restorePVs':false"), 0);
	assert_true(r.outcome.changed);
	assert_null(kube_at(r.request.item, "spec", "volumeName"));
	assert_null(kube_at(r.request.item, "spec", "dataSource"));
	assert_int_equal(r.outcome.n_related, 0);
}

#define SNAPSHOT                                                                           \
	"{'metadata':{'name':'velero-data-0-abcde','namespace':'shop','uid':'1'," LABELS   \
	",'annotations':{'a':'b'},'finalizers':['f']},'spec':{'source':{"                  \
	"'persistentVolumeClaimName':'data'},'volumeSnapshotClassName':'fast'},'status':{" \
	"'boundVolumeSnapshotContentName':'snapcontent-1'}}"

static void a_snapshot_is_restored_as_an_import(void **state)
{
	cairn_cleanup(restored_done) struct restored r;
	json_t *item;

	(void)state;
	assert_int_equal(restore(&r, false, VELERO_ACTION_VS, SNAPSHOT, ""), 0);
	item = r.request.item;
	assert_true(r.outcome.changed);
	assert_false(r.outcome.skip);
	assert_string_equal(kube_name(item), RESTORED);
	assert_string_equal(kube_str(item, "spec", "source", "volumeSnapshotContentName"),
			    RESTORED);
	assert_null(kube_at(item, "spec", "source", "persistentVolumeClaimName"));
	assert_null(kube_at(item, "spec", "volumeSnapshotClassName"));
	assert_null(kube_at(item, "metadata", "uid"));
	assert_null(kube_at(item, "metadata", "finalizers"));
	assert_null(kube_annotation(item, "a"));
	assert_null(kube_at(item, "status"));
	assert_string_equal(kube_label(item, "app"), "x");
	assert_string_equal(kube_annotation(item, VELERO_ANNOTATION_CLAIM), "data");
	assert_int_equal(r.outcome.n_related, 1);
	assert_string_equal(r.outcome.related[0].name, "snapcontent-1");
}

#define CONTENT                                                                              \
	"{'metadata':{'name':'snapcontent-1','uid':'1'," LABELS ",'annotations':{"           \
	"'snapshot.storage.kubernetes.io/deletion-secret-name':'s','x':'y'}},'spec':{"       \
	"'driver':'d.io','deletionPolicy':'Delete','sourceVolumeMode':'Block','source':{"    \
	"'volumeHandle':'v'},'volumeSnapshotClassName':'fast','volumeSnapshotRef':{"         \
	"'namespace':'shop','name':'velero-data-0-abcde','uid':'9','resourceVersion':'7'}}," \
	"'status':{'snapshotHandle':'h-1'}}"

static void a_content_is_restored_with_its_handle_and_kept(void **state)
{
	cairn_cleanup(restored_done) struct restored r;
	json_t *item;

	(void)state;
	assert_int_equal(restore(&r, false, VELERO_ACTION_VSC, CONTENT, ""), 0);
	item = r.request.item;
	assert_string_equal(kube_name(item), RESTORED);
	assert_string_equal(kube_str(item, "spec", "source", "snapshotHandle"), "h-1");
	assert_null(kube_at(item, "spec", "source", "volumeHandle"));
	assert_string_equal(kube_str(item, "spec", "deletionPolicy"), "Retain");
	assert_string_equal(kube_str(item, "spec", "sourceVolumeMode"), "Block");
	assert_string_equal(kube_str(item, "spec", "volumeSnapshotRef", "name"), RESTORED);
	assert_string_equal(kube_str(item, "spec", "volumeSnapshotRef", "namespace"), "copy");
	assert_null(kube_at(item, "spec", "volumeSnapshotRef", "uid"));
	assert_null(kube_at(item, "spec", "volumeSnapshotRef", "resourceVersion"));
	assert_null(kube_at(item, "metadata", "uid"));
	assert_null(kube_annotation(item, "x"));
	assert_string_equal(kube_annotation(item, VELERO_ANNOTATION_SECRET), "s");
}

static void snapshots_of_other_backups_and_unwanted_ones_are_not_restored(void **state)
{
	static const char *const actions[] = {VELERO_ACTION_VS, VELERO_ACTION_VSC};
	static const char *const items[] = {SNAPSHOT, CONTENT};
	static const char other[] = "{'metadata':{'name':'x','namespace':'shop','labels':{"
				    "'velero.io/backup-name':'b0'}}}";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		cairn_cleanup(restored_done) struct restored r, s, t;

		assert_int_equal(restore(&r, false, actions[i], other, ""), 0);
		assert_true(r.outcome.skip);
		/* Velero's own actions decide. */
		assert_int_equal(restore(&s, true, actions[i], other, ""), 0);
		assert_false(s.outcome.skip || s.outcome.changed);
		assert_int_equal(restore(&t, false, actions[i], items[i], ",'restorePVs':false"),
				 0);
		assert_true(t.outcome.skip);
	}
}

static void what_the_backup_lacks_is_an_error(void **state)
{
	static const char *const cases[][2] = {
		{VELERO_ACTION_VS, "{'metadata':{'name':'v','namespace':'n'," LABELS "}}"},
		{VELERO_ACTION_VSC,
		 "{'metadata':{'name':'c'," LABELS "},'spec':{'volumeSnapshotRef':{'name':'v'}}}"},
		{VELERO_ACTION_VSC,
		 "{'metadata':{'name':'c'," LABELS "},'status':{'snapshotHandle':'h'}}"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(restored_done) struct restored r;

		assert_int_equal(restore(&r, false, cases[i][0], cases[i][1], ""),
				 CAIRN_PRECONDITION);
	}
}

static void actions_have_names_that_velero_takes(void **state)
{
	(void)state;
	for (size_t i = 0; i < velero_actions_n; i++) {
		const struct velero_action *action = &velero_actions[i];
		const char *slash = strchr(action->name, '/');

		assert_non_null(slash);
		assert_null(strchr(slash + 1, '/'));
		/* Velero skips those while its CSI feature is off. */
		assert_null(strstr(action->name, "velero.io/csi-"));
		assert_ptr_equal(velero_action_find(action->kind, action->name), action);
	}
	assert_null(velero_action_find(VELERO_BACKUP, "velero.io/none"));
	assert_null(velero_action_find(VELERO_DELETE, VELERO_ACTION_PVC));
}

static void ids_of_snapshots_name_all_that_another_cluster_needs(void **state)
{
	struct velero_snapshot_id id = {
		.driver = "d.io", .bytes = 5, .block = true, .handle = "a_b/c"};
	static const char *const bad[] = {
		"",           "d.io",       "d.io_5", "d.io_5_B",  "d.io_5_B_",
		"d.io_x_B_h", "d.io_5_X_h", "_5_B_h", "d.io__B_h", "d.io_99999999999999999999_B_h"};
	struct velero_snapshot_id read;
	char text[VELERO_SNAPSHOT_ID_MAX], long_handle[VELERO_SNAPSHOT_ID_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(velero_snapshot_id_format(&id, text, &err), &err);
	assert_string_equal(text, "d.io_5_B_a_b/c");
	assert_ok(velero_snapshot_id_parse(text, &read, &err), &err);
	assert_string_equal(read.driver, "d.io");
	assert_string_equal(read.handle, "a_b/c");
	assert_int_equal(read.bytes, 5);
	assert_true(read.block);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(velero_snapshot_id_parse(bad[i], &read, &err) < 0);
	memset(long_handle, 'h', sizeof(long_handle) - 1);
	long_handle[sizeof(long_handle) - 1] = 0;
	id.handle = long_handle;
	assert_int_equal(velero_snapshot_id_format(&id, text, &err), CAIRN_INVALID);
}

static void the_order_of_restores_is_compared_with_the_design_s(void **state)
{
	static const struct {
		const char *order;
		size_t differences, matter;
	} cases[] = {
		{"namespaces,storageclasses,customresourcedefinitions,"
		 "volumesnapshotclass.snapshot.storage.k8s.io,"
		 "volumesnapshotcontents.snapshot.storage.k8s.io,"
		 "volumesnapshots.snapshot.storage.k8s.io,persistentvolumes,persistentvolumeclaims,"
		 "secrets,configmaps,serviceaccounts,limitranges,pods,replicaset",
		 0, 0},
		/* Velero 1.18: CRDs before namespaces and classes, accounts before secrets. */
		{NULL, 4, 0},
		{"persistentvolumeclaims,volumesnapshots.snapshot.storage.k8s.io", SIZE_MAX, 13},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *found = NULL;
		struct cairn_err err = {0};
		size_t j, matter = 0;
		json_t *entry;

		assert_ok(velero_restore_order_check(cases[i].order, &found, &err), &err);
		json_array_foreach(found, j, entry)
		{
			matter += kube_is(entry, "matters");
		}
		if (cases[i].differences != SIZE_MAX)
			assert_int_equal(json_array_size(found), cases[i].differences);
		assert_int_equal(matter, cases[i].matter);
	}
}

static void flags_of_the_server_are_found_in_its_deployment(void **state)
{
	kube_auto_json json_t *one =
		json_text("{'spec':{'template':{'spec':{'containers':[{'args':['server',"
			  "'--restore-resource-priorities=a,b']}]}}}}");
	kube_auto_json json_t *two =
		json_text("{'spec':{'template':{'spec':{'containers':[{'command':"
			  "['velero','--restore-resource-priorities','c']}]}}}}");

	(void)state;
	assert_string_equal(velero_deployment_flag(one, "restore-resource-priorities"), "a,b");
	assert_string_equal(velero_deployment_flag(two, "restore-resource-priorities"), "c");
	assert_null(velero_deployment_flag(one, "features"));
	assert_null(velero_deployment_flag(NULL, "features"));
}

static void any_text_becomes_the_value_of_a_label(void **state)
{
	char a[VELERO_LABEL_VALUE_MAX], b[VELERO_LABEL_VALUE_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(velero_label_of_text("d.io_5_B_h", a, &err), &err);
	assert_string_equal(a, "d.io_5_B_h");
	assert_ok(velero_label_of_text("", a, &err), &err);
	assert_string_equal(a, "");
	assert_ok(velero_label_of_text("/x:y/", a, &err), &err);
	assert_ok(velero_label_of_text("/x/y/", b, &err), &err);
	assert_memory_equal(a, "xx-y-", 5);
	assert_string_not_equal(a, b);
	assert_int_equal(strlen(a), 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_velero_derives),
		cmocka_unit_test(ids_of_snapshots_name_all_that_another_cluster_needs),
		cmocka_unit_test(any_text_becomes_the_value_of_a_label),
		cmocka_unit_test(the_order_of_restores_is_compared_with_the_design_s),
		cmocka_unit_test(flags_of_the_server_are_found_in_its_deployment),
		cmocka_unit_test(durations_are_those_of_go),
		cmocka_unit_test(flags_of_the_server_are_read_and_others_passed_over),
		cmocka_unit_test(the_handshake_is_for_velero_of_this_version_without_tls),
		cmocka_unit_test(volume_policies_match_as_velero_matches_them),
		cmocka_unit_test(the_first_policy_that_matches_decides),
		cmocka_unit_test(policies_that_are_not_understood_are_refused),
		cmocka_unit_test(pods_say_which_volumes_are_copied_as_files),
		cmocka_unit_test(the_snapshot_class_is_chosen_in_order),
		cmocka_unit_test(only_a_backup_in_the_same_namespace_owns_a_snapshot),
		cmocka_unit_test(a_claim_is_restored_from_its_snapshot),
		cmocka_unit_test(a_claim_without_a_snapshot_in_this_backup_is_left_alone),
		cmocka_unit_test(without_volumes_a_claim_is_restored_empty),
		cmocka_unit_test(a_snapshot_is_restored_as_an_import),
		cmocka_unit_test(a_content_is_restored_with_its_handle_and_kept),
		cmocka_unit_test(snapshots_of_other_backups_and_unwanted_ones_are_not_restored),
		cmocka_unit_test(what_the_backup_lacks_is_an_error),
		cmocka_unit_test(actions_have_names_that_velero_takes),
	};

	return cmocka_run_group_tests_name("velero", tests, NULL, NULL);
}
