/* SPDX-License-Identifier: Apache-2.0 */

/* The signer of nodes' certificates against an API server that the test plays. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "certificates/certificate_keeper.h"
#include "certificates/certificate_pair.h"
#include "certificates/route_authority.h"
#include "certificates/route_signer.h"
#include "kube/kube_client.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"
#include "net/tls/tls_pem.h"

#define PATIENCE_MS 60000
#define TEXT_MAX    16384
#define DAY_S       86400U
#define ACCOUNT     "system:serviceaccount:here:r-snapshot-metadata"
#define GOOD        "cairn-route-good"
#define FOREIGN     "cairn-route-foreign"
#define STRANGERS   120
#define DENIED_MAX  99 /* of one pass, besides FOREIGN */

static struct {
	char secret[TEXT_MAX], first[TEXT_MAX], second[TEXT_MAX];
	atomic_bool signed_good, failed_foreign, published;
	atomic_uint denied, denied_before; /* strangers, and those before the sidecar */
} played;

static char *base64_of(const char *text)
{
	struct cairn_buf out = CAIRN_BUF_INIT(TEXT_MAX);

	cairn_base64_add(&out, text, strlen(text));
	assert_false(cairn_buf_failed(&out));
	return cairn_buf_take_string(&out);
}

static char *request_text(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509_REQ *request = X509_REQ_new();
	char *text, *encoded;

	assert_int_equal(X509_REQ_set_pubkey(request, key), 1);
	assert_true(X509_REQ_sign(request, key, EVP_sha256()) > 0);
	text = net_tls_pem_request(request);
	assert_non_null(text);
	encoded = base64_of(text);
	free(text);
	X509_REQ_free(request);
	EVP_PKEY_free(key);
	return encoded;
}

/* A Secret without the bundle; a page of strangers' requests, one of them denied and one approved by
 * hand; a page with a request of a sidecar. */
static void play(void)
{
	uint64_t now_s = cairn_now_ns() / CAIRN_NS_PER_SEC;
	char *request = request_text(), *crt, *key;
	int n;
	struct certificates_pair authority = {0};
	struct cairn_err err = {0};

	assert_ok(certificates_authority_issue(now_s, 90 * DAY_S, &authority, &err), &err);
	crt = base64_of(authority.crt);
	key = base64_of(authority.key);
	snprintf(played.secret, TEXT_MAX,
		 "{\"metadata\":{\"name\":\"r-route-ca\",\"resourceVersion\":\"1\"},"
		 "\"data\":{\"tls.crt\":\"%s\",\"tls.key\":\"%s\"}}",
		 crt, key);
	n = snprintf(
		played.first, TEXT_MAX,
		"{\"metadata\":{\"continue\":\"more\"},\"items\":[{\"metadata\":{\"name\":\"a\"},"
		"\"spec\":{\"username\":\"x\"},"
		"\"status\":{\"conditions\":[{\"type\":\"Denied\",\"status\":\"True\"}]}},"
		"{\"metadata\":{\"name\":\"" FOREIGN "\"},\"spec\":{\"username\":\"x\"},"
		"\"status\":{\"conditions\":[{\"type\":\"Approved\",\"status\":\"True\"}]}}");
	for (unsigned i = 0; i < STRANGERS; i++)
		n += snprintf(played.first + n, TEXT_MAX - (size_t)n,
			      ",{\"metadata\":{\"name\":\"b%u\"},\"spec\":{\"username\":\"x\"}}",
			      i);
	assert_true(n + 3 < TEXT_MAX);
	snprintf(played.first + n, TEXT_MAX - (size_t)n, "]}");
	snprintf(played.second, TEXT_MAX,
		 "{\"metadata\":{},\"items\":["
		 "{\"metadata\":{\"name\":\"" GOOD "\"},\"spec\":{\"username\":\"" ACCOUNT "\","
		 "\"extra\":{\"authentication.kubernetes.io/node-name\":[\"one\"]},"
		 "\"usages\":[\"server auth\",\"client auth\"],\"request\":\"%s\"},"
		 "\"status\":{}}]}",
		 request);
	certificates_pair_done(&authority);
	free(request);
	free(crt);
	free(key);
}

/* A request changes once: the signer would answer those of the script again. */
static int answer_put(struct net_http *http, const struct scripted_request *request)
{
	if (strstr(request->path, "/b") && strstr(request->path, "/approval"))
		atomic_fetch_add(&played.denied, 1);
	if (strstr(request->path, GOOD "/status") && strstr(request->body, "\"certificate\"") &&
	    !atomic_load(&played.signed_good)) {
		atomic_store(&played.denied_before, atomic_load(&played.denied));
		atomic_store(&played.signed_good, true);
	}
	if (strstr(request->path, FOREIGN "/approval"))
		return scripted_status(http, 422, "Invalid", "approved and denied", NULL);
	if (strstr(request->path, FOREIGN "/status") && strstr(request->body, "\"Failed\""))
		atomic_store(&played.failed_foreign, true);
	return scripted_reply(http, 200, NULL, request->body);
}

static int answer_script(struct scripted_server *server, struct net_http *http, unsigned n,
			 const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (strcmp(request->method, "PUT") == 0)
		return answer_put(http, request);
	if (strcmp(request->method, "PATCH") == 0) {
		if (strstr(request->path, "/configmaps/") && strstr(request->body, "BEGIN CERT"))
			atomic_store(&played.published, true);
		return scripted_reply(http, 200, NULL,
				      "{\"metadata\":{\"resourceVersion\":\"2\"}}");
	}
	if (strstr(request->path, "/secrets/"))
		return scripted_reply(http, 200, NULL, played.secret);
	if (strstr(request->path, "/configmaps/"))
		return scripted_reply(http, 200, NULL, "{\"data\":{\"ca.crt\":\"old\"}}");
	return scripted_reply(http, 200, NULL,
			      strstr(request->query, "continue=more") ? played.second
								      : played.first);
}

static void a_sidecar_is_answered_whatever_others_left(void **state)
{
	uint64_t until = cairn_monotonic_ns() + PATIENCE_MS * CAIRN_NS_PER_MS;
	struct certificates_options options = {.ns = "here",
					       .release = "r",
					       .driver = "d",
					       .life_ms = 90ULL * DAY_S * 1000,
					       .overlap_ms = DAY_S * 1000ULL};
	struct certificates_route_signer *signer = NULL;
	struct scripted_server server;
	struct cairn_err err = {0};

	(void)state;
	play();
	scripted_start(&server, answer_script, NULL);
	options.client =
		scripted_client(&server, "token: t", &(struct kube_client_options){.qps = -1});
	assert_ok(certificates_route_signer_new(&options, &signer, &err), &err);
	certificates_route_signer_lead(signer, true);
	while (!atomic_load(&played.signed_good) || !atomic_load(&played.failed_foreign)) {
		assert_true(cairn_monotonic_ns() < until);
		cairn_sleep_ms(5);
	}
	assert_true(atomic_load(&played.published));
	assert_int_equal(atomic_load(&played.denied_before), DENIED_MAX);
	certificates_route_signer_free(signer);
	kube_client_free(options.client);
	scripted_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sidecar_is_answered_whatever_others_left),
	};

	return cmocka_run_group_tests_name("certificates/route_answers", tests, NULL, NULL);
}
