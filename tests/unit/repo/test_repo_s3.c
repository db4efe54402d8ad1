/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "repo/aws_credentials.h"
#include "repo/repo_http.h"
#include "repo/repo_store.h"
#include "repo/s3/sign.h"
#include "repo/s3/xml.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The examples of the S3 documentation that sign these headers only. */
static void signatures_are_those_of_the_documentation(void **state)
{
	static const struct s3_credentials credentials = {
		"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL,
		"us-east-1"};
	static const struct {
		const char *query, *signature;
	} cases[] = {
		{"lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"max-keys=2&prefix=J",
		 "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct s3_signed what = {.method = "GET",
					       .host = "examplebucket.s3.amazonaws.com",
					       .path = "/",
					       .query = cases[i].query,
					       .payload = EMPTY,
					       .date = "20130524T000000Z"};
		cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(4096);
		cairn_auto_free char *text = NULL;

		s3_sign(&credentials, &what, &out);
		text = cairn_buf_take_string(&out);
		assert_non_null(text);
		assert_non_null(strstr(
			text, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
			      "SignedHeaders=host;x-amz-content-sha256;x-amz-date,Signature="));
		assert_string_equal(strrchr(text, '=') + 1, cases[i].signature);
	}
}

static void dates_and_names_are_encoded_as_signed(void **state)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(100);
	char date[S3_DATE_MAX];

	(void)state;
	assert_string_equal(s3_date(1369353600, date), "20130524T000000Z");
	s3_encode(&out, "a/b c~+\xc3\xa9", 1);
	s3_encode(&out, "/", 0);
	assert_int_equal(out.len, 20);
	assert_memory_equal(out.data, "a/b%20c~%2B%C3%A9%2F", 20);
}

struct seen {
	unsigned n;
	uint64_t bytes;
	char last[S3_TEXT_MAX];
};

static int see(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	seen->n++;
	seen->bytes += size;
	snprintf(seen->last, sizeof(seen->last), "%s", key);
	return 0;
}

static void pages_of_a_listing_are_read(void **state)
{
	static const char xml[] =
		"<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">"
		"<Name>b</Name><IsTruncated>true</IsTruncated><Owner><Key>no</Key></Owner>"
		"<Contents><Key>data/00/a&amp;b</Key><Size>7</Size></Contents>"
		"<Contents><Size>5</Size><Key>data/ff</Key><ETag>&quot;x&quot;</ETag></Contents>"
		"<NextContinuationToken>t/=+</NextContinuationToken></ListBucketResult>";
	struct cairn_err err = {0};
	struct seen seen = {0};
	struct s3_page page;

	(void)state;
	assert_ok(s3_parse_list(xml, strlen(xml), see, &seen, &page, &err), &err);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.bytes, 12);
	assert_string_equal(seen.last, "data/ff");
	assert_true(page.truncated);
	assert_string_equal(page.token, "t/=+");
}

static void what_is_no_listing_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"<ListBucketResult>",
		"<Error><Code>NoSuchBucket</Code></Error>",
		"<html></html>",
		"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
		"<ListBucketResult><Contents><Size>x</Size></Contents></ListBucketResult>",
		"<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult></ListBucketResult>",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seen seen = {0};
		struct s3_page page;

		assert_code(s3_parse_list(cases[i], strlen(cases[i]), see, &seen, &page, NULL),
			    CAIRN_INTERNAL);
	}
}

static void texts_are_found_in_answers(void **state)
{
	static const char xml[] = "<a><b>1</b><UploadId>u-1</UploadId><UploadId>2</UploadId></a>";
	char text[16];

	(void)state;
	assert_true(s3_find_text(xml, strlen(xml), "UploadId", text, sizeof(text)));
	assert_string_equal(text, "u-1");
	assert_false(s3_find_text(xml, strlen(xml), "Code", text, sizeof(text)));
	assert_false(s3_find_text(xml, strlen(xml), "UploadId", text, 3));
}

static void locations_are_understood(void **state)
{
	static const struct {
		const char *location;
		int code;
	} cases[] = {
		{"/some/dir", 0},
		{"local:dir", 0},
		{"dir", 0},
		{"s3:https://host:9000/bucket", 0},
		{"s3:host/bucket/a/b/", 0},
		{"s3://host/bucket", 0},
		{"rest:https://user:pw@host:8000/path", 0},
		{"rest:http://host", 0},
		{"s3:https://host", CAIRN_INVALID},
		{"s3:https://key@host/bucket", CAIRN_INVALID},
		{"s3:ftp://host/bucket", CAIRN_INVALID},
		{"rest:host/path", CAIRN_INVALID},
		{"sftp:host:/path", CAIRN_INVALID},
		{"", CAIRN_INVALID},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct repo_store_options options = {
			.location = cases[i].location, .access_key = "a", .secret_key = "b"};
		cairn_cleanup(repo_store_closep) struct repo_store *store = NULL;
		struct cairn_err err = {0};
		int rc = repo_store_open(&options, &store, &err);

		if (rc != cases[i].code)
			fail_msg("%s: %d %s", cases[i].location, rc, err.msg);
	}
}

static void sftp_is_refused_with_what_works_instead(void **state)
{
	const struct repo_store_options options = {.location = "sftp:user@host:/srv/backup"};
	struct repo_store *store;
	struct cairn_err err = {0};

	(void)state;
	assert_code(repo_store_open(&options, &store, &err), CAIRN_INVALID);
	assert_non_null(strstr(err.msg, "rest-server"));
	assert_non_null(strstr(err.msg, "rest:"));
}

static void keys_of_s3_are_asked_for(void **state)
{
	const struct repo_store_options options = {.location = "s3:https://host/bucket"};
	struct repo_store *store;
	struct cairn_err err = {0};

	(void)state;
	assert_code(repo_store_open(&options, &store, &err), CAIRN_INVALID);
	assert_non_null(strstr(err.msg, "AWS_ACCESS_KEY_ID"));
}

static void shown_locations_hold_no_password(void **state)
{
	static const struct {
		const char *location, *shown;
	} cases[] = {
		{"rest:https://user:p@ss@host/path", "rest:https://***@host/path"},
		{"rest:https://host/path@x", "rest:https://host/path@x"},
		{"/dir/a@b", "/dir/a@b"},
		{"s3:https://host/bucket", "s3:https://host/bucket"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_free char *shown = repo_store_location_shown(cases[i].location);

		assert_string_equal(shown, cases[i].shown);
	}
}

static void only_what_time_may_heal_is_tried_again(void **state)
{
	static const struct {
		long status;
		const char *why;
		int code;
	} cases[] = {
		{200, "", 0},
		{400, "InvalidDigest: no", CAIRN_INTERNAL},
		{400, "RequestTimeout: the body came too slowly", CAIRN_UNAVAILABLE},
		{403, "AccessDenied: no", CAIRN_DENIED},
		{404, "", CAIRN_NOT_FOUND},
		{408, "", CAIRN_UNAVAILABLE},
		{409, "BucketAlreadyExists: yes", CAIRN_INTERNAL},
		{409, "OperationAborted: another one is under way", CAIRN_UNAVAILABLE},
		{425, "", CAIRN_UNAVAILABLE},
		{429, "", CAIRN_UNAVAILABLE},
		{500, "", CAIRN_UNAVAILABLE},
		{501, "NotImplemented", CAIRN_UNIMPLEMENTED},
		{503, "SlowDown", CAIRN_UNAVAILABLE},
		{505, "", CAIRN_INTERNAL},
		{507, "", CAIRN_NO_SPACE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_answer answer = {.status = cases[i].status};

		snprintf(answer.why, sizeof(answer.why), "%s", cases[i].why);
		assert_int_equal(repo_http_status(&answer, NULL), cases[i].code);
	}
}

static void keys_are_found_in_the_file_that_programs_share(void **state)
{
	static const char text[] = "# a comment\n"
				   "[other]\naws_access_key_id = no\n"
				   "[ default ]\r\n"
				   "aws_access_key_id = AK \r\n"
				   "aws_secret_access_key=s/+=x\n"
				   "region = ignored\n"
				   "[last]\naws_access_key_id=L\naws_secret_access_key=M\n"
				   "aws_session_token=N";
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials a = {0};
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials b = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(repo_aws_credentials_parse(text, sizeof(text) - 1, NULL, &a, &err), 0);
	assert_string_equal(a.access_key, "AK");
	assert_string_equal(a.secret_key, "s/+=x");
	assert_null(a.session_token);
	assert_int_equal(repo_aws_credentials_parse(text, sizeof(text) - 1, "last", &b, &err), 0);
	assert_string_equal(b.session_token, "N");
	assert_int_equal(repo_aws_credentials_parse(text, sizeof(text) - 1, "other", &b, &err),
			 CAIRN_NOT_FOUND);
	assert_null(strstr(err.msg, "AK"));
	assert_int_equal(repo_aws_credentials_parse("[", 1, NULL, &b, &err), CAIRN_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_time_may_heal_is_tried_again),
		cmocka_unit_test(signatures_are_those_of_the_documentation),
		cmocka_unit_test(dates_and_names_are_encoded_as_signed),
		cmocka_unit_test(pages_of_a_listing_are_read),
		cmocka_unit_test(what_is_no_listing_is_refused),
		cmocka_unit_test(texts_are_found_in_answers),
		cmocka_unit_test(locations_are_understood),
		cmocka_unit_test(keys_of_s3_are_asked_for),
		cmocka_unit_test(sftp_is_refused_with_what_works_instead),
		cmocka_unit_test(shown_locations_hold_no_password),
		cmocka_unit_test(keys_are_found_in_the_file_that_programs_share),
	};

	return cmocka_run_group_tests_name("repo/s3", tests, NULL, NULL);
}
