/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include <openssl/ssl.h>

#include "net/tls/tls_names.h"

static void versions_have_go_names(void **state)
{
	static const struct {
		const char *name;
		int version; /* 0: refused */
		const char *why;
	} cases[] = {
		{NULL, TLS1_2_VERSION, NULL},           {"", TLS1_2_VERSION, NULL},
		{"VersionTLS12", TLS1_2_VERSION, NULL}, {"VersionTLS13", TLS1_3_VERSION, NULL},
		{"VersionTLS11", 0, "insecure"},        {"VersionTLS10", 0, "insecure"},
		{"versiontls13", 0, "unknown"},         {"1.3", 0, "unknown"},
		{"VersionTLS13 ", 0, "unknown"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		int version = 0;
		int rc = net_tls_version_parse(cases[i].name, &version, &err);

		assert_int_equal(rc, cases[i].version ? 0 : CAIRN_INVALID);
		assert_int_equal(version, cases[i].version);
		if (cases[i].why)
			assert_non_null(strstr(err.msg, cases[i].why));
	}
}

static void lists_are_translated_or_refused_with_the_name_at_fault(void **state)
{
	static const struct {
		int (*parse)(const char *, char *, size_t, struct cairn_err *);
		const char *list;
		const char *result; /* NULL: refused */
		const char *why;
	} cases[] = {
		{net_tls_ciphers_parse, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		 "ECDHE-RSA-AES128-GCM-SHA256", NULL},
		{net_tls_ciphers_parse,
		 "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
		 "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-SHA", NULL},
		{net_tls_ciphers_parse, "TLS_AES_128_GCM_SHA256", "", NULL},
		{net_tls_ciphers_parse, "TLS_RSA_WITH_AES_128_CBC_SHA", NULL, "insecure"},
		{net_tls_ciphers_parse, "ECDHE-RSA-AES128-GCM-SHA256", NULL,
		 "'ECDHE-RSA-AES128-GCM-SHA256'"},
		{net_tls_ciphers_parse, "TLS_AES_128_GCM_SHA256,", NULL, "empty"},
		{net_tls_ciphers_parse, "", NULL, "empty"},
		{net_tls_ciphers_parse, "TLS_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256", NULL,
		 "twice"},
		{net_tls_ciphers_parse, "tls_aes_128_gcm_sha256", NULL, "unknown"},
		{net_tls_curves_parse, "X25519,CurveP256,CurveP384,CurveP521",
		 "X25519:P-256:P-384:P-521", NULL},
		{net_tls_curves_parse, "X25519MLKEM768", "X25519MLKEM768", NULL},
		{net_tls_curves_parse, "P-256", NULL, "unknown TLS curve 'P-256'"},
		{net_tls_curves_parse, "CurveP256,,X25519", NULL, "empty"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[NET_TLS_LIST_MAX] = "-";
		struct cairn_err err = {0};
		int rc = cases[i].parse(cases[i].list, out, sizeof(out), &err);

		if (rc != (cases[i].result ? 0 : CAIRN_INVALID))
			fail_msg("'%s': %d %s", cases[i].list, rc, err.msg);
		if (cases[i].result)
			assert_string_equal(out, cases[i].result);
		else if (!strstr(err.msg, cases[i].why))
			fail_msg("'%s' does not say '%s'", err.msg, cases[i].why);
	}
}

/* OpenSSL ignores a name it does not know if it knows another: ask for each. */
static void openssl_knows_every_suite(void **state)
{
	static const char *const names[] = {
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
		"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
		"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
		"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	};
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	(void)state;
	assert_non_null(ctx);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char out[NET_TLS_LIST_MAX];
		struct cairn_err err = {0};

		assert_ok(net_tls_ciphers_parse(names[i], out, sizeof(out), &err), &err);
		if (SSL_CTX_set_cipher_list(ctx, out) != 1)
			fail_msg("OpenSSL does not know %s", out);
	}
	SSL_CTX_free(ctx);
}

static void a_result_that_does_not_fit_is_an_error(void **state)
{
	char out[8];

	(void)state;
	assert_int_equal(net_tls_curves_parse("X25519", out, sizeof(out), NULL), 0);
	assert_int_equal(net_tls_curves_parse("X25519,CurveP256", out, sizeof(out), NULL),
			 CAIRN_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_have_go_names),
		cmocka_unit_test(lists_are_translated_or_refused_with_the_name_at_fault),
		cmocka_unit_test(openssl_knows_every_suite),
		cmocka_unit_test(a_result_that_does_not_fit_is_an_error),
	};

	return cmocka_run_group_tests_name("net/tls_names", tests, NULL, NULL);
}
