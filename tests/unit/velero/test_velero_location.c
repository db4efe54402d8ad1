/* SPDX-License-Identifier: Apache-2.0 */

/* BackupStorageLocations as stores, and objects under free keys in a directory. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kube/object.h"
#include "repo/repo_objects.h"
#include "repo/repo_store.h"
#include "velero/location.h"

static json_t *location_of(const char *provider, const char *bucket, const char *prefix,
			   json_t *config)
{
	json_t *made =
		json_pack("{s:{s:s, s:s}, s:{s:s, s:{s:s, s:s}, s:o}}", "metadata", "name",
			  "default", "namespace", "velero", "spec", "provider", provider,
			  "objectStorage", "bucket", bucket, "prefix", prefix, "config", config);

	assert_non_null(made);
	return made;
}

static void a_location_of_s3_is_read_as_velero_reads_it(void **state)
{
	static const struct {
		const char *url, *region, *prefix, *path_style, *location;
	} cases[] = {
		{"http://127.0.0.1:9000/", "eu", "/a/b/", "true",
		 "s3:http://127.0.0.1:9000/bkt/a/b"},
		{"https://minio", "eu", "", "false", "s3:https://minio/bkt"},
		{"", "eu-west-1", "", "", "s3:https://s3.eu-west-1.amazonaws.com/bkt"},
		{"", "", "", "", "s3:https://s3.us-east-1.amazonaws.com/bkt"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *object = location_of(
			"aws", "bkt", cases[i].prefix,
			json_pack("{s:s, s:s, s:s}", "s3Url", cases[i].url, "region",
				  cases[i].region, "s3ForcePathStyle", cases[i].path_style));
		cairn_cleanup(velero_place_done) struct velero_place place = {0};
		struct cairn_err err = {0};

		json_object_set_new(kube_at(object, "spec"), "credential",
				    json_pack("{s:s, s:s}", "name", "creds", "key", "cloud"));
		json_object_set_new(kube_at(object, "spec", "objectStorage"), "caCert",
				    json_string("UEVN"));
		assert_ok(velero_place_read(object, NULL, &place, &err), &err);
		assert_string_equal(place.location, cases[i].location);
		assert_true(place.is_s3);
		assert_int_equal(place.path_style, strcmp(cases[i].path_style, "true") == 0);
		assert_string_equal(place.ca_pem, "PEM");
		assert_string_equal(place.secret, "creds");
		assert_string_equal(place.secret_key, "cloud");
	}
}

static void a_location_that_cannot_be_used_is_refused(void **state)
{
	static const struct {
		const char *provider, *bucket, *prefix, *insecure;
		int code;
	} cases[] = {
		{"gcp", "b", "", "", CAIRN_UNIMPLEMENTED},
		{"aws", "", "", "", CAIRN_INVALID},
		{"aws", "a/b", "", "", CAIRN_INVALID},
		{"aws", "b", "../x", "", CAIRN_INVALID},
		{"aws", "b", "", "true", CAIRN_UNIMPLEMENTED},
		{VELERO_PROVIDER_DIRECTORY, "b", "", "", CAIRN_UNIMPLEMENTED},
		{VELERO_PROVIDER_DIRECTORY, "..", "", "", CAIRN_INVALID},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *object =
			location_of(cases[i].provider, cases[i].bucket, cases[i].prefix,
				    json_pack("{s:s}", "insecureSkipTLSVerify", cases[i].insecure));
		struct velero_place place = {0};
		struct cairn_err err = {0};

		assert_int_equal(velero_place_read(object, NULL, &place, &err), cases[i].code);
	}
}

/* The address goes into Job specs and messages, so it holds no password; and nothing in it moves
 * the bucket's path to another place. */
static void an_address_that_is_more_than_a_host_is_refused(void **state)
{
	static const struct {
		const char *url, *region;
	} cases[] = {
		{"http://user:password@host", ""},
		{"https://host?x=", ""},
		{"https://host#", ""},
		{"https://host\\@other", ""},
		{"https://ho st", ""},
		{"https://host\n", ""},
		{"ftp://host", ""},
		{"host", ""},
		{"https://", ""},
		{"", "x@evil.example/"},
		{"", "evil.example/#"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *object = location_of(
			"aws", "b", "",
			json_pack("{s:s, s:s}", "s3Url", cases[i].url, "region", cases[i].region));
		struct velero_place place = {0};
		struct cairn_err err = {0};

		assert_int_equal(velero_place_read(object, NULL, &place, &err), CAIRN_INVALID);
		assert_null(strstr(err.msg, "password"));
	}
}

static int collect(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	(void)size;
	return json_object_set_new(arg, key, json_integer((json_int_t)size))
		       ? cairn_err_nomem(err, "key")
		       : 0;
}

static void objects_of_a_directory_have_free_keys(void **state)
{
	char root[256];
	struct repo_store_options options = {.location = root};
	cairn_cleanup(repo_store_closep) struct repo_store *store = NULL;
	kube_auto_json json_t *found = json_object();
	uint8_t *data = NULL;
	size_t n = 0;
	struct cairn_err err = {0};

	(void)state;
	scratch_template(root, "objects");
	assert_non_null(mkdtemp(root));
	assert_ok(repo_store_open(&options, &store, &err), &err);
	assert_ok(repo_object_list(store, "backups/", collect, found, &err), &err);
	assert_int_equal(json_object_size(found), 0);
	assert_int_equal(repo_object_get(store, "backups/b/f", 10, &data, &n, &err),
			 CAIRN_NOT_FOUND);
	assert_ok(repo_object_put(store, "backups/b/f", "one", 3, &err), &err);
	assert_ok(repo_object_put(store, "backups/b/f", "three", 5, &err), &err);
	assert_ok(repo_object_put(store, "restores/r", "x", 1, &err), &err);
	assert_ok(repo_object_get(store, "backups/b/f", 10, &data, &n, &err), &err);
	assert_int_equal(n, 5);
	assert_memory_equal(data, "three", 5);
	free(data);
	assert_int_equal(repo_object_get(store, "backups/b/f", 4, &data, &n, &err), CAIRN_RANGE);
	assert_ok(repo_object_list(store, "backups/", collect, found, &err), &err);
	assert_int_equal(json_object_size(found), 1);
	assert_non_null(json_object_get(found, "backups/b/f"));
	assert_ok(repo_object_remove(store, "backups/b/f", &err), &err);
	assert_ok(repo_object_remove(store, "backups/b/f", &err), &err);
	assert_ok(repo_object_remove(store, "restores/r", &err), &err);
	assert_int_equal(rmdir(root), 0); /* directories went with their last object */
	assert_int_equal(repo_object_list(store, "", collect, found, &err), CAIRN_NOT_FOUND);
}

static void keys_that_leave_the_store_are_refused(void **state)
{
	static const char *const bad[] = {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/."};
	char long_key[REPO_KEY_MAX + 2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(repo_key_valid(bad[i]));
	memset(long_key, 'a', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = 0;
	assert_false(repo_key_valid(long_key));
	assert_true(repo_key_valid("backups/b1/b1-logs.gz"));
	assert_true(repo_key_valid("...a/.b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_location_of_s3_is_read_as_velero_reads_it),
		cmocka_unit_test(a_location_that_cannot_be_used_is_refused),
		cmocka_unit_test(an_address_that_is_more_than_a_host_is_refused),
		cmocka_unit_test(objects_of_a_directory_have_free_keys),
		cmocka_unit_test(keys_that_leave_the_store_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
