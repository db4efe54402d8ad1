/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/driver_endpoint.h"

#include <openssl/pem.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "cairntest.h"
#include "kube/object.h"
#include "tls_files.h"

static int read_config(json_t *config, struct kube_driver_endpoint *ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = json_pack("{s:{s:o}}", "spec", "clientConfig", config);

	assert_non_null(object);
	return kube_driver_endpoint_read(object, ret, err);
}

static void a_discovery_leads_to_one_address_over_https(void **state)
{
	static const struct {
		const char *config;
		const char *url; /* NULL: refused */
	} cases[] = {
		{"{\"url\":\"https://host:1/path\"}", "https://host:1/path"},
		{"{\"url\":\"https://host:1/p//\"}", "https://host:1/p"},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\"}}", "https://b.a.svc:443"},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\",\"port\":8443,"
		 "\"path\":\"/x/\"}}",
		 "https://b.a.svc:8443/x"},
		{"{}", NULL},
		{"{\"url\":\"http://host\"}", NULL},
		{"{\"url\":\"https://a\",\"service\":{\"namespace\":\"a\",\"name\":\"b\"}}", NULL},
		{"{\"service\":{\"namespace\":\"a\"}}", NULL},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\",\"path\":\"x\"}}", NULL},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\",\"path\":\"@c.example\"}}",
		 NULL},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"c.example/\"}}", NULL},
		{"{\"service\":{\"namespace\":\"a@c\",\"name\":\"b\"}}", NULL},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\",\"port\":0}}", NULL},
		{"{\"service\":{\"namespace\":\"a\",\"name\":\"b\",\"port\":65536}}", NULL},
		{"{\"url\":\"https://a\",\"caBundle\":\"%%%\"}", NULL},
		{"{\"url\":\"https://a\",\"caBundle\":\"YWJj\"}", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_driver_endpoint endpoint;
		int rc = read_config(json_loads(cases[i].config, 0, NULL), &endpoint, NULL);

		if (rc != (cases[i].url ? 0 : CAIRN_INVALID))
			fail_msg("%s: %d", cases[i].config, rc);
		if (!rc)
			assert_string_equal(endpoint.url, cases[i].url);
		kube_driver_endpoint_done(&endpoint);
	}
}

static void add_certificate(BIO *pem, long not_after)
{
	const struct tls_pair_spec spec = {
		.name = "ca", .not_before = -1000, .not_after = not_after};
	struct tls_pair pair = tls_pair_make(&spec);

	assert_int_equal(PEM_write_bio_X509(pem, pair.cert), 1);
	tls_pair_done(&pair);
}

static int read_bundle(BIO *pem, struct kube_driver_endpoint *ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(1U << 16);
	char *bytes;
	long n = BIO_get_mem_data(pem, &bytes);

	cairn_base64_add(&text, bytes, (size_t)n);
	assert_false(cairn_buf_failed(&text));
	return read_config(
		json_pack("{s:s, s:s%}", "url", "https://h", "caBundle", text.data, text.len), ret,
		err);
}

static void a_bundle_has_a_certificate_that_is_still_good(void **state)
{
	BIO *pem = BIO_new(BIO_s_mem());
	struct kube_driver_endpoint endpoint;
	struct cairn_err err = {0};

	(void)state;
	add_certificate(pem, -10);
	assert_code(read_bundle(pem, &endpoint, &err), CAIRN_INVALID);
	assert_non_null(strstr(err.msg, "expired"));
	assert_null(endpoint.url);
	add_certificate(pem, 1000);
	assert_ok(read_bundle(pem, &endpoint, &err), &err);
	assert_non_null(strstr(endpoint.ca_pem, "BEGIN CERTIFICATE"));
	kube_driver_endpoint_done(&endpoint);
	BIO_free(pem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_discovery_leads_to_one_address_over_https),
		cmocka_unit_test(a_bundle_has_a_certificate_that_is_still_good),
	};

	return cmocka_run_group_tests_name("kube/driver_endpoint", tests, NULL, NULL);
}
