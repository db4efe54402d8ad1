/* SPDX-License-Identifier: Apache-2.0 */

/* The authority of nodes, and whose requests it signs. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "certificates/certificate_pair.h"
#include "certificates/route_authority.h"
#include "certificates/route_requests.h"
#include "kube/object.h"
#include "net/tls/tls_pem.h"

#define NOW     2000000000ULL
#define LIFE    9000ULL
#define ACCOUNT "system:serviceaccount:cairn:cairn-snapshot-metadata"

/* A request that asks for the name of another node. */
static char *request_of(EVP_PKEY *key, EVP_PKEY *signer)
{
	X509_REQ *request = X509_REQ_new();
	char *text;

	assert_int_equal(X509_REQ_set_pubkey(request, key), 1);
	assert_int_equal(
		X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN", MBSTRING_UTF8,
					   (const unsigned char *)"two.cairn-route", -1, -1, 0),
		1);
	assert_true(X509_REQ_sign(request, signer, EVP_sha256()) > 0);
	text = net_tls_pem_request(request);
	assert_non_null(text);
	X509_REQ_free(request);
	return text;
}

static X509 *parsed(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	BIO_free(bio);
	assert_non_null(x);
	return x;
}

static bool verifies(X509 *x, X509 *authority, int purpose, uint64_t at_s)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	bool good;

	assert_int_equal(X509_STORE_add_cert(store, authority), 1);
	assert_int_equal(X509_STORE_CTX_init(context, store, x, NULL), 1);
	assert_int_equal(X509_STORE_CTX_set_purpose(context, purpose), 1);
	X509_STORE_CTX_set_time(context, 0, (time_t)at_s);
	good = X509_verify_cert(context) == 1;
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	return good;
}

static void a_certificate_is_for_one_node_and_both_ends(void **state)
{
	struct certificates_pair authority = {0};
	struct certificates_validity validity;
	struct cairn_err err = {0};
	EVP_PKEY *key = EVP_EC_gen("P-256");
	char *request = request_of(key, key), *crt = NULL;
	X509 *x, *ca;

	(void)state;
	assert_ok(certificates_authority_issue(NOW, LIFE, &authority, &err), &err);
	assert_ok(certificates_authority_check(&authority, NOW, &validity, &err), &err);
	assert_int_equal(validity.ends_s, NOW + LIFE);
	assert_int_equal(certificates_authority_check(&authority, NOW + LIFE, &validity, &err),
			 CAIRN_INVALID);
	assert_ok(certificates_authority_sign(&authority, request, "one", NOW, 900, &crt, &err),
		  &err);
	x = parsed(crt);
	ca = parsed(authority.crt);
	assert_int_equal(X509_check_private_key(x, key), 1);
	assert_int_equal(X509_check_host(x, "one.cairn-route", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(x, "two.cairn-route", 0, 0, NULL), 0);
	assert_true(verifies(x, ca, X509_PURPOSE_SSL_SERVER, NOW));
	assert_true(verifies(x, ca, X509_PURPOSE_SSL_CLIENT, NOW));
	assert_false(verifies(x, ca, X509_PURPOSE_SSL_CLIENT, NOW + 901));
	assert_int_equal(X509_check_ca(x), 0);
	X509_free(x);
	X509_free(ca);
	free(crt);
	free(request);
	EVP_PKEY_free(key);
	certificates_pair_done(&authority);
}

static void what_is_not_a_proven_request_is_not_signed(void **state)
{
	static const char *const not_nodes[] = {"", "one,DNS:two", "*", "a:b"};
	struct certificates_pair authority = {0};
	struct cairn_err err = {0};
	EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");
	char *good = request_of(key, key), *stolen = request_of(key, other), *crt = NULL;

	(void)state;
	assert_ok(certificates_authority_issue(NOW, LIFE, &authority, &err), &err);
	assert_int_equal(
		certificates_authority_sign(&authority, stolen, "one", NOW, 900, &crt, &err),
		CAIRN_INVALID);
	assert_int_equal(certificates_authority_sign(&authority, "", "one", NOW, 900, &crt, &err),
			 CAIRN_INVALID);
	for (size_t i = 0; i < sizeof(not_nodes) / sizeof(not_nodes[0]); i++)
		assert_int_equal(certificates_authority_sign(&authority, good, not_nodes[i], NOW,
							     900, &crt, &err),
				 CAIRN_INVALID);
	assert_null(crt);
	free(good);
	free(stolen);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
	certificates_pair_done(&authority);
}

static void only_pods_of_the_sidecar_get_one(void **state)
{
#define USAGES ", \"usages\": [\"server auth\", \"client auth\"]}}"
#define EXTRA  "\"extra\": {\"" CERTIFICATES_NODE_EXTRA "\": "
	static const struct {
		const char *text;
		const char *node;
	} cases[] = {
		{"{\"spec\": {\"username\": \"" ACCOUNT "\", " EXTRA "[\"one\"]}" USAGES, "one"},
		{"{\"spec\": {\"username\": \"" ACCOUNT "\"" USAGES, NULL},
		{"{\"spec\": {\"username\": \"" ACCOUNT "\", " EXTRA "[]}" USAGES, NULL},
		{"{\"spec\": {\"username\": \"" ACCOUNT "\", " EXTRA "[\"one\", \"two\"]}" USAGES,
		 NULL},
		{"{\"spec\": {\"username\": \"" ACCOUNT "x\", " EXTRA "[\"one\"]}" USAGES, NULL},
		{"{\"spec\": {" EXTRA "[\"one\"]}" USAGES, NULL},
		{"{\"spec\": {\"username\": \"" ACCOUNT "\", " EXTRA
		 "[\"one\"]}, \"usages\": [\"server auth\"]}}",
		 NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cairn_err err = {0};
		const char *node = NULL;
		kube_auto_json json_t *request = NULL;

		assert_ok(kube_json_parse(cases[i].text, strlen(cases[i].text), &request, &err),
			  &err);
		assert_int_equal(certificates_route_judge(request, ACCOUNT, &node, &err),
				 cases[i].node ? 0 : CAIRN_DENIED);
		if (cases[i].node)
			assert_string_equal(node, cases[i].node);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_certificate_is_for_one_node_and_both_ends),
		cmocka_unit_test(what_is_not_a_proven_request_is_not_signed),
		cmocka_unit_test(only_pods_of_the_sidecar_get_one),
	};

	return cmocka_run_group_tests_name("certificates/route_signer", tests, NULL, NULL);
}
