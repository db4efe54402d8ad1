/* SPDX-License-Identifier: Apache-2.0 */

/* Calls to a real HTTPS server on loopback. */

#include "cairntest.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <openssl/pem.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http_client/http_call.h"
#include "http_client/http_client.h"
#include "http_client/idle_handles.h"
#include "net/http/http_server.h"
#include "net/tls/tls_settings.h"
#include "tls_files.h"

#define LIFE 86400L

struct world {
	char dir[128];
	char url[64];
	char *right_ca, *other_ca; /* PEM */
	struct net_tls *tls;
	struct net_http_server *server;
};

static int echo(struct net_http *http, void *arg, struct cairn_err *err)
{
	size_t n;
	const void *body = net_http_body(http, &n);

	(void)arg;
	return net_http_reply(http, 200, "text/plain", body, n, err);
}

static int report_peer(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	return net_http_reply_text(http, 200, net_http_peer(http), err);
}

static char *text_of(const char *dir, const char *name)
{
	cairn_auto_free char *path = cairn_printf("%s/%s", dir, name);
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(65536);
	char piece[4096];
	FILE *file = fopen(path, "re");
	size_t n;

	assert_non_null(file);
	while ((n = fread(piece, 1, sizeof(piece), file)) > 0)
		cairn_buf_add(&text, piece, n);
	fclose(file);
	return cairn_buf_take_string(&text);
}

static void make_certificates(const char *dir)
{
	const struct tls_pair_spec authority = {
		.name = "right", .not_before = -1000, .not_after = LIFE};
	const struct tls_pair_spec stranger = {
		.name = "other", .not_before = -1000, .not_after = LIFE};
	struct tls_pair ca = tls_pair_make(&authority), other = tls_pair_make(&stranger);
	const struct tls_pair_spec spec = {.name = "server",
					   .alt = "IP:127.0.0.1",
					   .issuer = &ca,
					   .not_before = -1000,
					   .not_after = LIFE};
	struct tls_pair leaf = tls_pair_make(&spec);

	tls_cert_write(dir, "right.pem", &ca);
	tls_cert_write(dir, "other.pem", &other);
	tls_cert_write(dir, "server.pem", &leaf);
	tls_key_write(dir, "server.key", &leaf);
	tls_pair_done(&leaf);
	tls_pair_done(&other);
	tls_pair_done(&ca);
}

static void listen_with_tls(struct world *world)
{
	static const struct net_http_route routes[] = {
		{.path = "/echo", .handler = echo},
		{.path = "/peer", .handler = report_peer},
	};
	cairn_auto_free char *cert = cairn_printf("%s/server.pem", world->dir);
	cairn_auto_free char *key = cairn_printf("%s/server.key", world->dir);
	const struct net_tls_options files = {.cert_file = cert, .key_file = key, .http1 = true};
	const struct net_http_options options = {0};
	struct cairn_err err = {0};
	uint16_t port;

	assert_ok(net_tls_server_new(&files, &world->tls, &err), &err);
	assert_ok(net_http_server_new(&options, &world->server, &err), &err);
	assert_ok(net_http_server_add(world->server, routes, ARRAY_LEN(routes), &err), &err);
	assert_ok(net_http_server_listen(world->server, "127.0.0.1:0", world->tls, &port, &err),
		  &err);
	assert_ok(net_http_server_start(world->server, &err), &err);
	snprintf(world->url, sizeof(world->url), "https://127.0.0.1:%u", port);
}

static int set_up(void **state)
{
	struct world *world = cairn_calloc(1, sizeof(*world));

	assert_non_null(world);
	scratch_template(world->dir, "http_client");
	assert_non_null(mkdtemp(world->dir));
	make_certificates(world->dir);
	world->right_ca = text_of(world->dir, "right.pem");
	world->other_ca = text_of(world->dir, "other.pem");
	listen_with_tls(world);
	*state = world;
	return 0;
}

static void remove_file(const char *dir, const char *name)
{
	cairn_auto_free char *path = cairn_printf("%s/%s", dir, name);

	unlink(path);
}

static int tear_down(void **state)
{
	struct world *world = *state;

	net_http_server_free(world->server);
	net_tls_free(world->tls);
	remove_file(world->dir, "right.pem");
	remove_file(world->dir, "other.pem");
	remove_file(world->dir, "server.pem");
	remove_file(world->dir, "server.key");
	rmdir(world->dir);
	free(world->right_ca);
	free(world->other_ca);
	free(world);
	return 0;
}

static int call(const struct world *world, struct http_client_idle *idle,
		const struct http_client_settings *settings, const char *path, const char *body,
		struct cairn_buf *answer, struct cairn_err *err)
{
	cairn_auto_free char *url = cairn_printf("%s%s", world->url, path);
	struct http_client_call request = {
		.url = url, .body = body, .body_len = body ? strlen(body) : 0, .answer = answer};
	long status = 0;
	int rc = http_client_call(idle, settings, &request, &status, err);

	if (!rc)
		assert_int_equal(status, 200);
	return rc;
}

static void a_body_is_sent_and_the_answer_received(void **state)
{
	struct world *world = *state;
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = world->right_ca};
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(64);
	struct cairn_err err = {0};

	assert_ok(call(world, NULL, &settings, "/echo", "some text", &answer, &err), &err);
	assert_int_equal(answer.len, strlen("some text"));
	assert_memory_equal(answer.data, "some text", answer.len);
}

static void an_answer_over_its_limit_is_an_error(void **state)
{
	struct world *world = *state;
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = world->right_ca};
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(4);
	struct cairn_err err = {0};

	assert_code(call(world, NULL, &settings, "/echo", "some text", &answer, &err),
		    CAIRN_INTERNAL);
	assert_non_null(strstr(err.msg, "too large"));
}

static void connections_are_kept_for_the_next_call(void **state)
{
	struct world *world = *state;
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = world->right_ca};
	cairn_auto_buf struct cairn_buf first = CAIRN_BUF_INIT(64);
	cairn_auto_buf struct cairn_buf second = CAIRN_BUF_INIT(64);
	struct http_client_idle idle;
	struct cairn_err err = {0};

	http_client_idle_init(&idle, 1);
	assert_ok(call(world, &idle, &settings, "/peer", NULL, &first, &err), &err);
	assert_ok(call(world, &idle, &settings, "/peer", NULL, &second, &err), &err);
	http_client_idle_done(&idle);
	assert_int_equal(first.len, second.len);
	assert_memory_equal(first.data, second.data, first.len); /* the same port */
}

static void handles_beyond_the_limit_are_closed(void **state)
{
	struct http_client_idle idle;
	CURL *a, *b;

	(void)state;
	http_client_idle_init(&idle, 1);
	a = http_client_idle_take(&idle);
	b = http_client_idle_take(&idle);
	assert_non_null(a);
	assert_non_null(b);
	http_client_idle_give(&idle, a);
	http_client_idle_give(&idle, b);
	assert_int_equal(idle.n, 1);
	assert_ptr_equal(http_client_idle_take(&idle), a);
	http_client_idle_give(&idle, a);
	http_client_idle_done(&idle);
}

static int always_cancelled(const void *arg)
{
	(void)arg;
	return CAIRN_CANCELLED;
}

static void a_caller_that_has_gone_ends_the_call(void **state)
{
	struct world *world = *state;
	cairn_auto_free char *url = cairn_printf("%s/echo", world->url);
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = world->right_ca};
	struct http_client_call request = {.url = url, .check = always_cancelled};
	struct cairn_err err = {0};
	long status;

	assert_code(http_client_call(NULL, &settings, &request, &status, &err), CAIRN_CANCELLED);
}

static void plain_http_needs_to_be_allowed(void **state)
{
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY};
	struct http_client_call request = {.url = "http://127.0.0.1:1/"};
	struct cairn_err err = {0};
	long status;

	(void)state;
	assert_code(http_client_call(NULL, &settings, &request, &status, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "rotocol"));
	settings.plain = true;
	assert_code(http_client_call(NULL, &settings, &request, &status, &err), CAIRN_UNAVAILABLE);
	assert_null(strstr(err.msg, "rotocol"));
}

static void a_server_of_another_authority_is_refused(void **state)
{
	struct world *world = *state;
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = world->other_ca};
	struct cairn_err err = {0};

	assert_code(call(world, NULL, &settings, "/echo", NULL, NULL, &err), CAIRN_UNAVAILABLE);
	settings.insecure = true;
	assert_ok(call(world, NULL, &settings, "/echo", NULL, NULL, &err), &err);
}

/* Makes DIR the system's directory of authorities, for this process. */
static bool replace_system_authorities(const char *dir)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
	       mount(dir, "/etc/ssl/certs", NULL, MS_BIND, NULL) == 0;
}

/* A copy of an authority under the name that OpenSSL looks for. */
static void add_authority(const char *dir, const char *pem, const char *name)
{
	cairn_auto_free char *path = cairn_printf("%s/%s", dir, name);
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(pem, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void hash_name(const char *pem, char out[16])
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	assert_non_null(cert);
	snprintf(out, 16, "%08lx.0", X509_subject_name_hash(cert));
	X509_free(cert);
	BIO_free(bio);
}

/* libcurl searches its directory of authorities beside a bundle that is given. */
static void a_given_authority_replaces_those_of_the_system(void **state)
{
	struct world *world = *state;
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY};
	cairn_auto_free char *path = cairn_printf("%s/other.pem", world->dir);
	char dir[128], name[16];
	struct cairn_err err = {0};
	int refused = 0;

	scratch_template(dir, "authorities");
	assert_non_null(mkdtemp(dir));
	hash_name(world->right_ca, name);
	add_authority(dir, world->right_ca, name);
	add_authority(dir, world->right_ca, "ca-certificates.crt");
	if (!replace_system_authorities(dir)) {
		remove_file(dir, name);
		remove_file(dir, "ca-certificates.crt");
		rmdir(dir);
		skip();
	}
	assert_ok(call(world, NULL, &settings, "/echo", NULL, NULL, &err), &err);
	settings.ca_pem = world->other_ca;
	refused += call(world, NULL, &settings, "/echo", NULL, NULL, &err) == CAIRN_UNAVAILABLE;
	settings.ca_pem = NULL;
	settings.ca_file = path;
	refused += call(world, NULL, &settings, "/echo", NULL, NULL, &err) == CAIRN_UNAVAILABLE;
	umount("/etc/ssl/certs");
	remove_file(dir, name);
	remove_file(dir, "ca-certificates.crt");
	rmdir(dir);
	assert_int_equal(refused, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_is_sent_and_the_answer_received),
		cmocka_unit_test(an_answer_over_its_limit_is_an_error),
		cmocka_unit_test(connections_are_kept_for_the_next_call),
		cmocka_unit_test(handles_beyond_the_limit_are_closed),
		cmocka_unit_test(a_caller_that_has_gone_ends_the_call),
		cmocka_unit_test(plain_http_needs_to_be_allowed),
		cmocka_unit_test(a_server_of_another_authority_is_refused),
		cmocka_unit_test(a_given_authority_replaces_those_of_the_system),
	};

	return cmocka_run_group_tests_name("http_client", tests, set_up, tear_down);
}
