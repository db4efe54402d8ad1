/* SPDX-License-Identifier: Apache-2.0 */

/* What of the data mover needs no API server: views, decisions, objects and statuses. */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "kube/object.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_objects.h"
#include "velero/mover/mover_place.h"
#include "velero/mover/mover_request.h"
#include "velero/mover/mover_status.h"
#include "velero/velero_names.h"

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "9f1c0a1e-0000-4000-8000-000000000001"

#define UPLOAD                                                                                   \
	"{'metadata':{'name':'b2-x','namespace':'velero','uid':'" UID "','resourceVersion':'7'," \
	"'ownerReferences':[{'kind':'Backup','name':'b2','uid':'bu'}]},"                         \
	"'spec':{'datamover':'cairn','snapshotType':'CSI','csiSnapshot':{'volumeSnapshot':'vs'," \
	"'storageClass':'cairn'},'sourcePVC':'data','sourceNamespace':'shop',"                   \
	"'backupStorageLocation':'default','operationTimeout':'10m0s'}}"

#define BACKUP "{'metadata':{'name':'b2','namespace':'velero','uid':'elsewhere'}}"

#define DOWNLOAD                                                                                \
	"{'metadata':{'name':'r1-x','namespace':'velero','uid':'" UID "',"                      \
	"'ownerReferences':[{'kind':'Restore','name':'r1','uid':'ru'}]},"                       \
	"'spec':{'datamover':'cairn','targetVolume':{'pvc':'data','namespace':'copy','pv':''}," \
	"'backupStorageLocation':'default','snapshotID':'" ID "','sourceNamespace':'shop',"     \
	"'snapshotSize':68157440}}"

#define LOCATION                                                                          \
	"{'metadata':{'name':'default','namespace':'velero'},'spec':{'provider':'aws',"   \
	"'objectStorage':{'bucket':'bkt','prefix':'/a/'},'config':{'region':'us-east-1'," \
	"'s3Url':'http://10.0.0.1:9000/','s3ForcePathStyle':'true','profile':'p'},"       \
	"'credential':{'name':'keys','key':'file'}}}"

static void requests_are_read(void **state)
{
	kube_auto_json json_t *up = json_text(UPLOAD);
	kube_auto_json json_t *down = json_text(DOWNLOAD);
	struct mover_upload upload;
	struct mover_download download;

	(void)state;
	assert_int_equal(mover_upload_view(up, &upload, NULL), 0);
	assert_string_equal(upload.backup, "b2");
	assert_string_equal(upload.snapshot, "vs");
	assert_int_equal(upload.timeout_ms, 600000);
	assert_int_equal(mover_download_view(down, &download, NULL), 0);
	assert_string_equal(download.target_ns, "copy");
	assert_string_equal(download.backup_id, ID);
	assert_int_equal(download.size, 68157440);
	assert_int_equal(download.timeout_ms, MOVER_TIMEOUT_MS);
}

static void forged_fields_are_refused(void **state)
{
	static const struct {
		const char *field, *value;
	} cases[] = {
		{"sourceNamespace", "../other"},
		{"sourceNamespace", "Shop"},
		{"sourceNamespace", ""},
		{"sourcePVC", "--to"},
		{"sourcePVC", "a/b"},
		{"backupStorageLocation", "../x"},
		{"snapshotType", "Other"},
		{"snapshotID", "--help"},
		{"snapshotID", "abc"},
		{"snapshotID", "latest"},
	};
	struct mover_upload upload;
	struct mover_download download;
	struct cairn_err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool down = strcmp(cases[i].field, "snapshotID") == 0;
		kube_auto_json json_t *object = json_text(down ? DOWNLOAD : UPLOAD);

		kube_set(object, NULL, json_string(cases[i].value), "spec", cases[i].field);
		assert_int_equal(down ? mover_download_view(object, &download, &err)
				      : mover_upload_view(object, &upload, &err),
				 CAIRN_INVALID);
		assert_non_null(strstr(err.msg, cases[i].field));
	}
}

static void a_request_without_its_owner_is_refused(void **state)
{
	kube_auto_json json_t *up = json_text(UPLOAD);
	struct mover_upload upload;

	(void)state;
	kube_remove(up, "metadata", "ownerReferences");
	assert_int_equal(mover_upload_view(up, &upload, NULL), CAIRN_INVALID);
}

static void the_next_step_follows_from_the_object_alone(void **state)
{
	static const struct {
		const char *phase;
		bool taken, cancel, deleted;
		enum mover_step step;
	} cases[] = {
		{NULL, false, false, false, MOVER_STEP_ACCEPT},
		{"New", false, false, false, MOVER_STEP_ACCEPT},
		{"New", false, true, false, MOVER_STEP_CANCEL},
		{"Accepted", true, false, false, MOVER_STEP_PREPARE},
		{"Accepted", false, false, false, MOVER_STEP_ACCEPT},
		{"Prepared", false, false, false, MOVER_STEP_ACCEPT},
		{"InProgress", false, false, false, MOVER_STEP_ACCEPT}, /* forged: not checked */
		{"Prepared", true, false, false, MOVER_STEP_FOLLOW},
		{"InProgress", true, false, false, MOVER_STEP_FOLLOW},
		{"InProgress", true, true, false, MOVER_STEP_CANCEL},
		{"Canceling", true, true, false, MOVER_STEP_CANCEL},
		{"InProgress", true, false, true, MOVER_STEP_CLEAN},
		{"Completed", true, true, false, MOVER_STEP_CLEAN},
		{"Failed", true, false, false, MOVER_STEP_CLEAN},
		{"Canceled", true, true, false, MOVER_STEP_CLEAN},
		{"Completed", false, true, false, MOVER_STEP_NONE},
		{"New", false, false, true, MOVER_STEP_NONE},
		{"Odd", false, false, false, MOVER_STEP_ACCEPT},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *object = json_text(UPLOAD);

		if (cases[i].phase)
			kube_set(object, NULL, json_string(cases[i].phase), "status", "phase");
		if (cases[i].taken)
			kube_set(object, NULL, json_pack("[s]", MOVER_FINALIZER), "metadata",
				 "finalizers");
		if (cases[i].cancel)
			kube_set(object, NULL, json_true(), "spec", "cancel");
		if (cases[i].deleted)
			kube_set(object, NULL, json_string("2026-11-17T00:00:00Z"), "metadata",
				 "deletionTimestamp");
		assert_int_equal(mover_step_of(object), cases[i].step);
		kube_set(object, NULL, json_string("velero"), "spec", "datamover");
		assert_int_equal(mover_step_of(object), MOVER_STEP_NONE);
	}
}

static void a_repository_lies_in_veleros_directory(void **state)
{
	kube_auto_json json_t *location = json_text(LOCATION);
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	cairn_cleanup(mover_place_done) struct mover_place other = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(mover_place_of(location, "shop", &place, NULL), 0);
	assert_string_equal(place.repository, "s3:http://10.0.0.1:9000/bkt/a/restic/shop");
	assert_string_equal(place.files[0].secret, "velero-repo-credentials");
	assert_string_equal(place.files[1].secret, "keys");
	assert_string_equal(place.credentials_path, "/cairn/credentials/file");
	assert_false(place.read_only);
	assert_int_equal(mover_place_of(location, "../x", &other, &err), CAIRN_INVALID);
	kube_set(location, NULL, json_string("azure"), "spec", "provider");
	assert_int_equal(mover_place_of(location, "shop", &other, &err), CAIRN_UNIMPLEMENTED);
	kube_set(location, NULL, json_string("aws"), "spec", "provider");
	kube_set(location, NULL, json_string("../k"), "spec", "credential", "key");
	assert_int_equal(mover_place_of(location, "shop", &other, &err), CAIRN_INVALID);
}

#define SOURCE_CLAIM                                                                            \
	"{'metadata':{'name':'data','namespace':'shop','uid':'cu'},'spec':{'storageClassName':" \
	"'cairn','volumeName':'pv1','volumeMode':'Filesystem'}}"
#define SOURCE_VOLUME                                                                           \
	"{'metadata':{'name':'pv1'},'spec':{'capacity':{'storage':'64Mi'},'csi':{'driver':'d'," \
	"'volumeHandle':'vh'}}}"
#define SOURCE_SNAPSHOT                                                                        \
	"{'metadata':{'name':'vs','namespace':'shop','uid':'su'},'spec':{'volumeSnapshotClass" \
	"Name':'sc'},'status':{'restoreSize':'80Mi'}}"
#define SOURCE_CONTENT                                                                            \
	"{'metadata':{'name':'snapcontent-1','annotations':{'snapshot.storage.kubernetes.io/"     \
	"deletion-secret-name':'s','other':'x'}},'spec':{'driver':'d','volumeSnapshotClassName':" \
	"'sc'},'status':{'snapshotHandle':'sh'}}"

/* A DataUpload, its place and what it moves. */
struct upload_scene {
	json_t *owner, *claim, *volume, *snapshot, *content;
	struct mover_upload upload;
	struct mover_place place;
	struct mover_source source;
	struct cluster_names names;
};

static void upload_scene_init(struct upload_scene *s)
{
	kube_auto_json json_t *location = json_text(LOCATION);

	*s = (struct upload_scene){.owner = json_text(UPLOAD),
				   .claim = json_text(SOURCE_CLAIM),
				   .volume = json_text(SOURCE_VOLUME),
				   .snapshot = json_text(SOURCE_SNAPSHOT),
				   .content = json_text(SOURCE_CONTENT)};
	s->source = (struct mover_source){.claim = s->claim,
					  .volume = s->volume,
					  .snapshot = s->snapshot,
					  .content = s->content};
	assert_int_equal(mover_upload_view(s->owner, &s->upload, NULL), 0);
	assert_int_equal(mover_place_of(location, "shop", &s->place, NULL), 0);
	assert_int_equal(
		mover_names_of(s->owner, MOVER_ROLE_UPLOAD, "data", &s->place, &s->names, NULL), 0);
}

static void upload_scene_done(struct upload_scene *s)
{
	mover_place_done(&s->place);
	json_decref(s->owner);
	json_decref(s->claim);
	json_decref(s->volume);
	json_decref(s->snapshot);
	json_decref(s->content);
}

static void an_upload_makes_its_objects_in_veleros_namespace(void **state)
{
	cairn_cleanup(upload_scene_done) struct upload_scene s;
	kube_auto_json json_t *patch = json_text("{'spec':{'backoffLimit':9}}");
	kube_auto_json json_t *copy = NULL, *copy_content = NULL, *made = NULL, *job = NULL;
	struct mover_settings settings = {.image = "i",
					  .service_account = "a",
					  .patch = patch,
					  .per_node = 2,
					  .deadline_s = 60};
	cairn_auto_free char *text = NULL;
	int64_t number = 0;

	(void)state;
	upload_scene_init(&s);
	assert_string_equal(s.names.name, "cairn-upload-" UID);
	assert_int_equal(mover_upload_snapshot(&s.names, &s.source, s.owner, &copy, NULL), 0);
	assert_string_equal(kube_namespace(copy), "velero");
	assert_string_equal(kube_annotation(copy, MOVER_ANNOTATION_CONTENT), "snapcontent-1");
	kube_set(copy, NULL, json_string("copy-uid"), "metadata", "uid");
	assert_int_equal(
		mover_upload_content(&s.names, &s.source, copy, false, &copy_content, NULL), 0);
	assert_string_equal(kube_namespace(copy_content), "");
	assert_string_equal(kube_str(copy_content, "spec", "source", "snapshotHandle"), "sh");
	assert_string_equal(kube_str(copy_content, "spec", "deletionPolicy"), "Delete");
	assert_string_equal(kube_str(copy_content, "spec", "volumeSnapshotRef", "uid"), "copy-uid");
	assert_string_equal(kube_annotation(copy_content, CLUSTER_MODE_CHANGE), "true");
	assert_null(kube_annotation(copy_content, "other"));
	assert_int_equal(mover_upload_claim(&s.names, &s.upload, &s.source, s.owner, &made, NULL),
			 0);
	assert_string_equal(kube_str(made, "spec", "volumeMode"), "Block");
	assert_string_equal(kube_str(made, "spec", "resources", "requests", "storage"), "80Mi");
	assert_int_equal(mover_upload_job(&settings, &s.upload, &s.names, &s.place, &s.source,
					  s.owner, 1, &job, NULL),
			 0);
	assert_true(kube_i64(job, &number, "spec", "backoffLimit") && number == 9);
	assert_string_equal(
		kube_str(job, "spec", "template", "metadata", "labels", MOVER_LABEL_SLOT), "1");
	assert_null(kube_at(job, "spec", "template", "spec", "affinity", "nodeAffinity"));
	text = kube_json_text(job, NULL);
	assert_non_null(strstr(text, "\"--volume-id\",\"vh\""));
	assert_non_null(strstr(text, "\"secretName\":\"keys\""));
	assert_non_null(strstr(text, "\"/cairn/password/repository-password\""));
	assert_non_null(strstr(text, "\"--volume-name\",\"shop/data\""));
}

static void an_upload_runs_where_the_volume_is_and_in_its_slot(void **state)
{
	cairn_cleanup(upload_scene_done) struct upload_scene s;
	kube_auto_json json_t *late = json_text("{'volumeBindingMode':'WaitForFirstConsumer'}");
	kube_auto_json json_t *required = json_text(
		"{'nodeSelectorTerms':[{'matchExpressions':[{'key':'topology.d/node','operator':"
		"'In','values':['n1']}]}]}");
	kube_auto_json json_t *job = NULL;
	struct mover_settings settings = {.image = "i", .per_node = 2, .deadline_s = 60};
	const json_t *affinity;

	(void)state;
	upload_scene_init(&s);
	s.source.storage_class = late;
	kube_set(s.volume, NULL, json_incref(required), "spec", "nodeAffinity", "required");
	assert_int_equal(mover_upload_job(&settings, &s.upload, &s.names, &s.place, &s.source,
					  s.owner, 1, &job, NULL),
			 0);
	affinity = kube_at(job, "spec", "template", "spec", "affinity");
	assert_true(json_equal(
		kube_at(affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
		required));
	assert_non_null(kube_at(affinity, "podAntiAffinity"));
}

static void a_restored_volume_has_the_mode_and_label_that_its_claim_waits_for(void **state)
{
	kube_auto_json json_t *owner = json_text(DOWNLOAD);
	kube_auto_json json_t *target = json_text(
		"{'metadata':{'name':'data','namespace':'copy','uid':'tu'},'spec':{'accessModes':["
		"'ReadWriteMany'],'storageClassName':'cairn','resources':{'requests':{'storage':"
		"'64Mi'}},'selector':{'matchLabels':{'velero.io/dynamic-pv-restore':'l'}}}}");
	kube_auto_json json_t *written = json_text(
		"{'metadata':{'name':'pvc-1','annotations':{'pv.kubernetes.io/provisioned-by':'d',"
		"'pv.kubernetes.io/bound-by-controller':'yes'}},'spec':{'capacity':{'storage':"
		"'80Mi'},'volumeMode':'Block','accessModes':['ReadWriteOnce'],'claimRef':{'uid':"
		"'x'},'persistentVolumeReclaimPolicy':'Retain','csi':{'driver':'d','volumeHandle':"
		"'vh'},'nodeAffinity':{'required':{}}}}");
	kube_auto_json json_t *class_object = json_text(
		"{'parameters':{'csi.storage.k8s.io/fstype':'xfs'},'reclaimPolicy':'Delete'}");
	kube_auto_json json_t *claim = NULL, *volume = NULL;
	struct mover_download download;
	struct cluster_names names;

	(void)state;
	assert_int_equal(mover_download_view(owner, &download, NULL), 0);
	assert_int_equal(mover_names_of(owner, MOVER_ROLE_DOWNLOAD, "data", NULL, &names, NULL), 0);
	assert_int_equal(mover_download_claim(&names, &download, target, owner, &claim, NULL), 0);
	/* The volume was larger than its claim. */
	assert_string_equal(kube_str(claim, "spec", "resources", "requests", "storage"),
			    "68157440");
	assert_int_equal(
		mover_download_volume(&names, written, target, class_object, &volume, NULL), 0);
	assert_string_equal(kube_str(volume, "spec", "volumeMode"), "Filesystem");
	assert_string_equal(kube_str(volume, "spec", "csi", "volumeHandle"), "vh");
	assert_string_equal(kube_str(volume, "spec", "csi", "fsType"), "xfs");
	assert_string_equal(kube_str(volume, "spec", "claimRef", "uid"), "tu");
	assert_string_equal(kube_str(volume, "spec", "persistentVolumeReclaimPolicy"), "Delete");
	assert_string_equal(kube_label(volume, VELERO_LABEL_RESTORED), "l");
	assert_string_equal(kube_annotation(volume, "pv.kubernetes.io/provisioned-by"), "d");
	assert_null(kube_annotation(volume, "pv.kubernetes.io/bound-by-controller"));
	assert_non_null(kube_at(volume, "spec", "nodeAffinity"));
}

static void what_is_not_read_counts_as_done(void **state)
{
	(void)state;
	assert_int_equal(mover_bytes_done(100, 0, 0), 0);
	assert_int_equal(mover_bytes_done(100, 0, 10), 90);
	assert_int_equal(mover_bytes_done(100, 5, 10), 95);
	assert_int_equal(mover_bytes_done(100, 11, 10), 100);
	assert_int_equal(mover_bytes_done(100, 100, 200), 50);
	assert_int_equal(mover_bytes_done(100, 300, 200), 100);
}

static void statuses_say_what_velero_reads(void **state)
{
	kube_auto_json json_t *object = json_text(UPLOAD);
	struct mover_work work = {.started = true, .done = 5, .total = 10, .node = "n"};
	kube_auto_json json_t *accepted = NULL, *shown = NULL, *again = NULL, *ended = NULL;
	struct cairn_err err = {0};
	int64_t number = 0;

	(void)state;
	assert_int_equal(mover_status_accepted(object, 0, &accepted, NULL), 0);
	assert_string_equal(kube_str(accepted, "metadata", "resourceVersion"), "7");
	assert_string_equal(
		json_string_value(json_array_get(kube_at(accepted, "metadata", "finalizers"), 0)),
		MOVER_FINALIZER);
	assert_int_equal(mover_status_progress(object, &work, 100, 0, &shown, NULL), 0);
	assert_string_equal(kube_str(shown, "status", "phase"), "InProgress");
	assert_string_equal(kube_str(shown, "status", "node"), "n");
	assert_true(kube_i64(shown, &number, "status", "progress", "bytesDone") && number == 95);
	kube_set(object, NULL, json_deep_copy(kube_at(shown, "status")), "status");
	assert_int_equal(mover_status_progress(object, &work, 100, 0, &again, NULL), 0);
	assert_null(again); /* nothing new */
	assert_int_equal(mover_status_ended(object, "Completed", NULL, 0, &ended, NULL), 0);
	assert_int_equal(mover_status_uploaded(ended, &work, &err), CAIRN_INTERNAL);
	work.log.result = json_pack("{s:s,s:i,s:i,s:s}", "id", ID, "size_bytes", 100,
				    "bytes_changed", 10, "mode", "changed");
	assert_int_equal(mover_status_uploaded(ended, &work, NULL), 0);
	assert_string_equal(kube_str(ended, "status", "snapshotID"), ID);
	assert_true(kube_i64(ended, &number, "status", "incrementalBytes") && number == 10);
	mover_work_done(&work);
}

static void a_deleted_backup_asks_for_its_data_to_be_forgotten(void **state)
{
	kube_auto_json json_t *upload = json_text(UPLOAD);
	kube_auto_json json_t *backup = json_text(BACKUP);
	kube_auto_json json_t *none = NULL, *made = NULL;
	struct velero_forget forget;

	(void)state;
	assert_int_equal(velero_forget_object(upload, backup, "default", &none, NULL), 0);
	assert_null(none); /* nothing was moved */
	kube_set(upload, NULL, json_string(ID), "status", "snapshotID");
	assert_int_equal(velero_forget_object(upload, backup, "default", &made, NULL), 0);
	assert_int_equal(velero_forget_view(made, &forget, NULL), 0);
	assert_string_equal(forget.word, ID);
	assert_string_equal(forget.ns, "shop");
	kube_set(made, NULL, json_string("--all"), "data", VELERO_FORGET_BACKUP);
	assert_int_equal(velero_forget_view(made, &forget, NULL), CAIRN_INVALID);
	kube_set(upload, NULL, json_string("velero"), "spec", "datamover");
	json_decref(made);
	made = NULL;
	assert_int_equal(velero_forget_object(upload, backup, "default", &made, NULL), 0);
	assert_null(made);
}

/* Of an upload that did not complete nobody knows whether it stored a backup. */
static void an_upload_that_failed_asks_for_what_it_stored_to_be_forgotten(void **state)
{
	kube_auto_json json_t *upload = json_text(UPLOAD);
	kube_auto_json json_t *made = NULL;
	struct velero_forget forget;

	(void)state;
	assert_int_equal(velero_forget_upload(upload, &made, NULL), 0);
	assert_int_equal(velero_forget_view(made, &forget, NULL), 0);
	assert_string_equal(forget.word, "--tagged=velero-upload=" UID);
	assert_string_equal(forget.location, "default");
	kube_set(made, NULL, json_string("x,cairn"), "data", VELERO_FORGET_UPLOAD);
	assert_int_equal(velero_forget_view(made, &forget, NULL), CAIRN_INVALID);
}

static void a_copy_is_named_by_namespace_location_and_id(void **state)
{
	static const char *const wrong[] = {
		"",
		",,",
		"shop",
		"shop,default",
		"a,b," ID "0",
		"-a,b," ID,
		"a,/b," ID,
		"a,b,c," ID,
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa,b," ID,
	};
	char text[VELERO_MOVED_TEXT_MAX];
	struct velero_moved moved;

	(void)state;
	assert_int_equal(velero_moved_parse("shop,default.x," ID, &moved, NULL), 0);
	assert_string_equal(moved.ns, "shop");
	assert_string_equal(moved.location, "default.x");
	velero_moved_format(&moved, text);
	assert_string_equal(text, "shop,default.x," ID);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(velero_moved_parse(wrong[i], &moved, NULL), CAIRN_INVALID);
}

/* A Backup of Velero's own namespace holds the DataUploads of all others. */
static void the_data_of_another_backup_is_not_forgotten(void **state)
{
	kube_auto_json json_t *upload = json_text(UPLOAD);
	kube_auto_json json_t *all = json_text("{'metadata':{'name':'all','namespace':'velero'}}");
	kube_auto_json json_t *made = NULL;

	(void)state;
	kube_set(upload, NULL, json_string(ID), "status", "snapshotID");
	assert_int_equal(velero_forget_object(upload, all, "default", &made, NULL), 0);
	assert_null(made);
	kube_remove(upload, "metadata", "ownerReferences");
	assert_int_equal(velero_forget_object(upload, all, "default", &made, NULL), 0);
	assert_null(made);
}

/* Texts of Jobs are cut at a number of bytes. */
static void a_message_that_is_not_utf8_ends_the_request_too(void **state)
{
	kube_auto_json json_t *object = json_text(UPLOAD);
	kube_auto_json json_t *ended = NULL;

	(void)state;
	assert_int_equal(
		mover_status_ended(object, "Failed", "caf\xc3\xa9 \xff caf\xc3", 0, &ended, NULL),
		0);
	assert_string_equal(kube_str(ended, "status", "phase"), "Failed");
	assert_string_equal(kube_str(ended, "status", "message"), "caf\xc3\xa9 ? caf?");
}

static void only_a_volume_of_the_movers_claim_is_exchanged(void **state)
{
	kube_auto_json json_t *owner = json_text(DOWNLOAD);
	kube_auto_json json_t *pv = json_text("{'spec':{'claimRef':{'namespace':'velero','name':"
					      "'cairn-download-" UID "'}}}");
	struct cluster_names names;

	(void)state;
	assert_int_equal(mover_names_of(owner, MOVER_ROLE_DOWNLOAD, "data", NULL, &names, NULL), 0);
	assert_true(mover_is_volume_of(pv, &names));
	kube_set(pv, NULL, json_string("victim"), "spec", "claimRef", "namespace");
	assert_false(mover_is_volume_of(pv, &names));
	kube_set(pv, NULL, json_string("velero"), "spec", "claimRef", "namespace");
	kube_set(pv, NULL, json_string("data"), "spec", "claimRef", "name");
	assert_false(mover_is_volume_of(pv, &names));
	kube_remove(pv, "spec", "claimRef");
	assert_false(mover_is_volume_of(pv, &names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_read),
		cmocka_unit_test(forged_fields_are_refused),
		cmocka_unit_test(a_request_without_its_owner_is_refused),
		cmocka_unit_test(the_next_step_follows_from_the_object_alone),
		cmocka_unit_test(a_repository_lies_in_veleros_directory),
		cmocka_unit_test(an_upload_makes_its_objects_in_veleros_namespace),
		cmocka_unit_test(an_upload_runs_where_the_volume_is_and_in_its_slot),
		cmocka_unit_test(a_restored_volume_has_the_mode_and_label_that_its_claim_waits_for),
		cmocka_unit_test(what_is_not_read_counts_as_done),
		cmocka_unit_test(statuses_say_what_velero_reads),
		cmocka_unit_test(a_deleted_backup_asks_for_its_data_to_be_forgotten),
		cmocka_unit_test(an_upload_that_failed_asks_for_what_it_stored_to_be_forgotten),
		cmocka_unit_test(a_copy_is_named_by_namespace_location_and_id),
		cmocka_unit_test(the_data_of_another_backup_is_not_forgotten),
		cmocka_unit_test(a_message_that_is_not_utf8_ends_the_request_too),
		cmocka_unit_test(only_a_volume_of_the_movers_claim_is_exchanged),
	};

	return cmocka_run_group_tests_name("velero/mover", tests, NULL, NULL);
}
