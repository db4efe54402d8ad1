/* SPDX-License-Identifier: Apache-2.0 */

/* A sidecar asks for its node's certificate, of an API server and a signer that the test plays. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "certificates/certificate_pair.h"
#include "certificates/route_authority.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"
#include "sidecar/route_certificate.h"

#define TEXT_MAX 8192
#define LIFE_S   3600U

static struct {
	struct certificates_pair authority;
	char answer[TEXT_MAX]; /* the request with its certificate */
} signer;

static void sign(const char *body)
{
	uint64_t now_s = cairn_now_ns() / CAIRN_NS_PER_SEC;
	struct cairn_buf encoded = CAIRN_BUF_INIT(TEXT_MAX);
	kube_auto_json json_t *request = NULL;
	char *pem, *crt = NULL, *text;
	struct cairn_err err = {0};

	assert_ok(kube_json_parse(body, strlen(body), &request, &err), &err);
	pem = cairn_base64_text(kube_str(request, "spec", "request"),
				strlen(kube_str(request, "spec", "request")));
	assert_non_null(pem);
	assert_ok(certificates_authority_sign(&signer.authority, pem, "one", now_s, LIFE_S, &crt,
					      &err),
		  &err);
	cairn_base64_add(&encoded, crt, strlen(crt));
	text = cairn_buf_take_string(&encoded);
	snprintf(signer.answer, TEXT_MAX,
		 "{\"metadata\":{\"name\":\"r\"},\"status\":{\"certificate\":\"%s\"}}", text);
	free(text);
	free(crt);
	free(pem);
}

static int answer_request(struct scripted_server *server, struct net_http *http, unsigned n,
			  const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (strcmp(request->method, "POST") != 0)
		return scripted_reply(http, 200, NULL, signer.answer);
	sign(request->body);
	return scripted_reply(http, 201, NULL, "{\"metadata\":{\"name\":\"r\"}}");
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* A file that a killed process left, with a mode that others may read. */
static void nobody_else_may_read_the_key(void **state)
{
	struct sidecar_route_certificate *certificate = NULL;
	char cert[128], key[128], left[160];
	struct scripted_server server;
	struct cairn_err err = {0};
	struct sidecar_route_certificate_options options = {
		.node = "one",
		.signer = "d/route",
		.cert_file = cert,
		.key_file = key,
		.timeout_ms = 60000,
	};

	(void)state;
	assert_ok(certificates_authority_issue(cairn_now_ns() / CAIRN_NS_PER_SEC, 8ULL * LIFE_S,
					       &signer.authority, &err),
		  &err);
	scripted_start(&server, answer_request, NULL);
	scripted_write(&server, "route.key.new", "left");
	snprintf(left, sizeof(left), "%s/route.key.new", server.dir);
	assert_int_equal(chmod(left, 0666), 0);
	snprintf(cert, sizeof(cert), "%s/route.crt", server.dir);
	snprintf(key, sizeof(key), "%s/route.key", server.dir);
	options.client = scripted_client(&server, "token: t", NULL);
	assert_ok(sidecar_route_certificate_new(&options, &certificate, &err), &err);
	assert_int_equal(mode_of(key), 0400);
	assert_int_equal(mode_of(cert) & 0222, 0);
	sidecar_route_certificate_free(certificate);
	kube_client_free(options.client);
	scripted_stop(&server);
	certificates_pair_done(&signer.authority);
}

static int answer_never(struct scripted_server *server, struct net_http *http, unsigned n,
			const struct scripted_request *request)
{
	(void)server;
	(void)n;
	(void)request;
	return scripted_reply(http, 200, NULL, "{\"metadata\":{\"name\":\"r\"}}");
}

static unsigned looks;

static bool end_later(void)
{
	return ++looks > 2;
}

static void a_process_that_ends_does_not_wait_for_the_signer(void **state)
{
	struct sidecar_route_certificate *certificate = NULL;
	struct scripted_server server;
	struct cairn_err err = {0};
	struct sidecar_route_certificate_options options = {
		.node = "one",
		.signer = "d/route",
		.cert_file = "/nowhere/route.crt",
		.key_file = "/nowhere/route.key",
		.timeout_ms = UINT64_MAX,
		.is_ending = end_later,
	};

	(void)state;
	scripted_start(&server, answer_never, NULL);
	options.client = scripted_client(&server, "token: t", NULL);
	assert_int_equal(sidecar_route_certificate_new(&options, &certificate, &err),
			 CAIRN_CANCELLED);
	assert_null(certificate);
	kube_client_free(options.client);
	scripted_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_else_may_read_the_key),
		cmocka_unit_test(a_process_that_ends_does_not_wait_for_the_signer),
	};

	return cmocka_run_group_tests_name("sidecar/route_certificate", tests, NULL, NULL);
}
