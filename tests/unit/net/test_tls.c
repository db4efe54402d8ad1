/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"
#include "tls_files.h"

#define DAY (24L * 3600)

/* An authority, two server pairs and a client pair, as files of one directory. */
struct world {
	char dir[64];
	struct tls_pair ca, other_ca, server1, server2, expired, client;
};

static const char *path(const struct world *w, const char *name)
{
	static char paths[8][512];
	static unsigned i;
	char *p = paths[i++ % 8];

	snprintf(p, sizeof(paths[0]), "%s/%s", w->dir, name);
	return p;
}

static void write_pair(const struct world *w, const struct tls_pair *pair)
{
	tls_cert_write(w->dir, "tls.crt", pair);
	tls_key_write(w->dir, "tls.key", pair);
}

static int setup(void **state)
{
	static struct world w;
	const char *alt = "DNS:cairn.test,IP:127.0.0.1";

	scratch_template(w.dir, "tls");
	assert_non_null(mkdtemp(w.dir));
	w.ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "ca", .not_before = -DAY, .not_after = DAY});
	w.other_ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "other", .not_before = -DAY, .not_after = DAY});
	w.server1 = tls_pair_make(&(struct tls_pair_spec){"one", alt, &w.ca, -DAY, DAY});
	w.server2 = tls_pair_make(&(struct tls_pair_spec){"two", alt, &w.ca, -DAY, 2 * DAY});
	w.expired = tls_pair_make(&(struct tls_pair_spec){"old", alt, &w.ca, -2 * DAY, -DAY});
	w.client = tls_pair_make(&(struct tls_pair_spec){"client", NULL, &w.ca, -DAY, DAY});
	write_pair(&w, &w.server1);
	tls_cert_write(w.dir, "ca.crt", &w.ca);
	tls_cert_write(w.dir, "other.crt", &w.other_ca);
	tls_cert_write(w.dir, "client.crt", &w.client);
	tls_key_write(w.dir, "client.key", &w.client);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = {"tls.crt",   "tls.key",    "ca.crt",     "other.crt",
					    "ca.key",    "client.crt", "client.key", "..data",
					    "a/tls.crt", "a/tls.key",  "b/tls.crt",  "b/tls.key",
					    "a",         "b",          "junk"};
	struct world *w = *state;
	struct tls_pair *pairs[] = {&w->ca,      &w->other_ca, &w->server1,
				    &w->server2, &w->expired,  &w->client};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)remove(path(w, names[i]));
	assert_int_equal(rmdir(w->dir), 0);
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
		tls_pair_done(pairs[i]);
	return 0;
}

static struct net_tls_options server_options(const struct world *w)
{
	return (struct net_tls_options){
		.cert_file = path(w, "tls.crt"), .key_file = path(w, "tls.key"), .h2 = true};
}

static struct net_tls_options client_options(const struct world *w)
{
	return (struct net_tls_options){
		.ca_file = path(w, "ca.crt"), .server_name = "cairn.test", .h2 = true};
}

/* Lets two sessions talk over memory until both are done or one gives up. */
static bool shake(SSL *server, SSL *client)
{
	BIO *to_server, *to_client;

	assert_int_equal(BIO_new_bio_pair(&to_server, 0, &to_client, 0), 1);
	SSL_set_bio(server, to_server, to_server);
	SSL_set_bio(client, to_client, to_client);
	SSL_set_accept_state(server);
	SSL_set_connect_state(client);
	for (int i = 0; i < 20; i++) {
		int c = SSL_do_handshake(client), s = SSL_do_handshake(server);

		if (c == 1 && s == 1)
			return true;
		if ((c != 1 && SSL_get_error(client, c) != SSL_ERROR_WANT_READ) ||
		    (s != 1 && SSL_get_error(server, s) != SSL_ERROR_WANT_READ))
			return false;
	}
	return false;
}

struct outcome {
	bool ok;
	char version[16], cipher[64], alpn[16], group[32];
	char server_cn[64], client_subject[128];
};

static struct outcome meet(struct net_tls *server, struct net_tls *client, const char *name)
{
	struct outcome out = {0};
	struct cairn_err err = {0};
	const unsigned char *alpn;
	unsigned n;
	SSL *s, *c;

	assert_ok(net_tls_session(server, NULL, &s, &err), &err);
	assert_ok(net_tls_session(client, name, &c, &err), &err);
	out.ok = shake(s, c);
	if (out.ok) {
		snprintf(out.version, sizeof(out.version), "%s", SSL_get_version(c));
		snprintf(out.cipher, sizeof(out.cipher), "%s", SSL_get_cipher_name(c));
		SSL_get0_alpn_selected(c, &alpn, &n);
		snprintf(out.alpn, sizeof(out.alpn), "%.*s", (int)n,
			 alpn ? (const char *)alpn : "");
		X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(c)),
					  NID_commonName, out.server_cn, sizeof(out.server_cn));
		(void)net_tls_peer_subject(s, out.client_subject, sizeof(out.client_subject));
	}
	SSL_free(s);
	SSL_free(c);
	return out;
}

/* Makes both sides from options and lets them meet. */
static struct outcome try_options(const struct net_tls_options *s, const struct net_tls_options *c,
				  const char *name)
{
	cairn_cleanup(net_tls_freep) struct net_tls *server = NULL;
	cairn_cleanup(net_tls_freep) struct net_tls *client = NULL;
	struct cairn_err err = {0};

	assert_ok(net_tls_server_new(s, &server, &err), &err);
	assert_ok(net_tls_client_new(c, &client, &err), &err);
	return meet(server, client, name);
}

static void defaults_give_tls_1_3_and_h2(void **state)
{
	struct net_tls_options s = server_options(*state), c = client_options(*state);
	struct outcome out = try_options(&s, &c, NULL);

	assert_true(out.ok);
	assert_string_equal(out.version, "TLSv1.3");
	assert_string_equal(out.alpn, "h2");
	assert_string_equal(out.server_cn, "one");
	assert_string_equal(out.client_subject, "");
}

static void the_server_must_have_the_name_asked_for(void **state)
{
	static const struct {
		const char *name;
		bool ok;
	} cases[] = {
		{"cairn.test", true}, {"other.test", false},           {"127.0.0.1", true},
		{"127.0.0.2", false}, {"cairn.test.evil.test", false},
	};
	struct net_tls_options s = server_options(*state), c = client_options(*state);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (try_options(&s, &c, cases[i].name).ok != cases[i].ok)
			fail_msg("%s", cases[i].name);
	c.ca_file = path(*state, "other.crt");
	assert_false(try_options(&s, &c, NULL).ok);
}

static void authorities_may_come_as_text(void **state)
{
	struct net_tls_options s = server_options(*state), c = client_options(*state);
	char pem[4096];
	FILE *f = fopen(c.ca_file, "r");

	assert_non_null(f);
	pem[fread(pem, 1, sizeof(pem) - 1, f)] = 0;
	fclose(f);
	c.ca_file = NULL;
	c.ca_pem = pem;
	assert_true(try_options(&s, &c, NULL).ok);
}

static void versions_suites_and_curves_are_what_was_set(void **state)
{
	struct net_tls_options s = server_options(*state), c = client_options(*state);
	struct outcome out;

	s.cipher_suites = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
	s.curves = "CurveP384";
	out = try_options(&s, &c, NULL);
	assert_true(out.ok);

	/* A peer that stops at 1.2 gets the one suite, or nothing at all. */
	for (int i = 0; i < 2; i++) {
		cairn_cleanup(net_tls_freep) struct net_tls *server = NULL;
		cairn_cleanup(net_tls_freep) struct net_tls *client = NULL;
		struct cairn_err err = {0};
		SSL *a, *b;

		s.min_version = i == 0 ? "VersionTLS12" : "VersionTLS13";
		assert_ok(net_tls_server_new(&s, &server, &err), &err);
		assert_ok(net_tls_client_new(&c, &client, &err), &err);
		assert_ok(net_tls_session(server, NULL, &a, &err), &err);
		assert_ok(net_tls_session(client, NULL, &b, &err), &err);
		SSL_set_max_proto_version(b, TLS1_2_VERSION);
		assert_int_equal(shake(a, b), i == 0);
		if (i == 0)
			assert_string_equal(SSL_get_cipher_name(b),
					    "ECDHE-ECDSA-CHACHA20-POLY1305");
		SSL_free(a);
		SSL_free(b);
	}
}

static void protocols_without_overlap_end_the_handshake(void **state)
{
	static const struct {
		bool s_h2, s_http1, c_h2, c_http1;
		const char *alpn; /* NULL: no handshake */
	} cases[] = {
		{true, true, true, true, "h2"},        {true, true, false, true, "http/1.1"},
		{true, false, false, true, NULL},      {false, true, true, false, NULL},
		{false, true, true, true, "http/1.1"},
	};
	struct net_tls_options s = server_options(*state), c = client_options(*state);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct outcome out;

		s.h2 = cases[i].s_h2;
		s.http1 = cases[i].s_http1;
		c.h2 = cases[i].c_h2;
		c.http1 = cases[i].c_http1;
		out = try_options(&s, &c, NULL);
		assert_int_equal(out.ok, cases[i].alpn != NULL);
		if (cases[i].alpn)
			assert_string_equal(out.alpn, cases[i].alpn);
	}
}

static void a_client_authority_demands_a_certificate(void **state)
{
	struct net_tls_options s = server_options(*state), c = client_options(*state);
	struct outcome out;

	s.ca_file = path(*state, "ca.crt");
	c.min_version = "VersionTLS12";
	assert_false(try_options(&s, &c, NULL).ok);
	s.peer_optional = true;
	assert_true(try_options(&s, &c, NULL).ok);
	s.peer_optional = false;
	c.cert_file = path(*state, "client.crt");
	c.key_file = path(*state, "client.key");
	out = try_options(&s, &c, NULL);
	assert_true(out.ok);
	assert_string_equal(out.client_subject, "/CN=client");
	s.ca_file = path(*state, "other.crt");
	assert_false(try_options(&s, &c, NULL).ok);
}

static void settings_that_cannot_work_are_refused(void **state)
{
	const struct world *w = *state;
	static const struct {
		const char *cert, *key, *ca, *version, *ciphers, *curves;
		int code;
		const char *why;
	} cases[] = {
		{"tls.crt", NULL, NULL, NULL, NULL, NULL, CAIRN_INVALID, "together"},
		{NULL, NULL, NULL, NULL, NULL, NULL, CAIRN_INVALID, "required"},
		{"none.crt", "tls.key", NULL, NULL, NULL, NULL, CAIRN_NOT_FOUND, "none.crt"},
		{"tls.key", "tls.key", NULL, NULL, NULL, NULL, CAIRN_INVALID, "no certificate in"},
		{"tls.crt", "tls.crt", NULL, NULL, NULL, NULL, CAIRN_INVALID, "no private key"},
		{"tls.crt", "client.key", NULL, NULL, NULL, NULL, CAIRN_PRECONDITION,
		 "does not belong"},
		{"tls.crt", "tls.key", "tls.key", NULL, NULL, NULL, CAIRN_INVALID, "authority"},
		{"tls.crt", "tls.key", NULL, "VersionTLS11", NULL, NULL, CAIRN_INVALID, "insecure"},
		{"tls.crt", "tls.key", NULL, NULL, "TLS_AES_128_GCM_SHA256", NULL, CAIRN_INVALID,
		 "VersionTLS13"},
		{"tls.crt", "tls.key", NULL, NULL, NULL, "CurveP255", CAIRN_INVALID, "CurveP255"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct net_tls_options o = {.cert_file =
						    cases[i].cert ? path(w, cases[i].cert) : NULL,
					    .key_file = cases[i].key ? path(w, cases[i].key) : NULL,
					    .ca_file = cases[i].ca ? path(w, cases[i].ca) : NULL,
					    .min_version = cases[i].version,
					    .cipher_suites = cases[i].ciphers,
					    .curves = cases[i].curves,
					    .h2 = true};
		struct net_tls *tls = NULL;
		struct cairn_err err = {0};
		int rc = net_tls_server_new(&o, &tls, &err);

		if (rc != cases[i].code || tls || !strstr(err.msg, cases[i].why))
			fail_msg("case %zu: %d '%s'", i, rc, err.msg);
	}
}

static void a_bad_pair_leaves_the_old_one_in_use(void **state)
{
	const struct world *w = *state;
	struct net_tls_options s = server_options(w), c = client_options(w);
	cairn_cleanup(net_tls_freep) struct net_tls *server = NULL;
	cairn_cleanup(net_tls_freep) struct net_tls *client = NULL;
	struct cairn_err err = {0};
	struct net_tls_info info;

	assert_ok(net_tls_server_new(&s, &server, &err), &err);
	assert_ok(net_tls_client_new(&c, &client, &err), &err);
	assert_int_equal(net_tls_reload(server, &err), 0);

	tls_cert_write(w->dir, "tls.crt", &w->server2); /* the key is still the old one */
	assert_int_equal(net_tls_reload(server, &err), CAIRN_PRECONDITION);
	assert_string_equal(meet(server, client, NULL).server_cn, "one");
	assert_int_equal(remove(path(w, "tls.key")), 0);
	assert_int_equal(net_tls_reload(server, &err), CAIRN_NOT_FOUND);
	assert_string_equal(meet(server, client, NULL).server_cn, "one");

	tls_key_write(w->dir, "tls.key", &w->server2);
	assert_int_equal(net_tls_reload(server, &err), 1);
	assert_string_equal(meet(server, client, NULL).server_cn, "two");

	write_pair(w, &w->expired); /* loaded: the clock may be what is wrong */
	assert_int_equal(net_tls_reload(server, &err), 1);
	net_tls_info(server, &info);
	assert_int_equal(info.reloads, 2);
	assert_true(info.not_after < (uint64_t)time(NULL));
	assert_false(meet(server, client, NULL).ok);
	write_pair(w, &w->server1);
}

static void sessions_outlive_a_reload_and_the_settings(void **state)
{
	const struct world *w = *state;
	struct net_tls_options s = server_options(w), c = client_options(w);
	struct net_tls *server, *client;
	struct cairn_err err = {0};
	char got[8] = "";
	SSL *a, *b;

	assert_ok(net_tls_server_new(&s, &server, &err), &err);
	assert_ok(net_tls_client_new(&c, &client, &err), &err);
	assert_ok(net_tls_session(server, NULL, &a, &err), &err);
	assert_ok(net_tls_session(client, NULL, &b, &err), &err);
	assert_true(shake(a, b));
	write_pair(w, &w->server2);
	assert_int_equal(net_tls_reload(server, &err), 1);
	net_tls_free(server);
	net_tls_free(client);
	assert_int_equal(SSL_write(a, "hello", 5), 5);
	assert_int_equal(SSL_read(b, got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	SSL_free(a);
	SSL_free(b);
	write_pair(w, &w->server1);
}

struct seen {
	atomic_uint good, bad;
};

static void on_change(void *arg, const struct cairn_err *failure)
{
	struct seen *seen = arg;

	if (failure)
		seen->bad++;
	else
		seen->good++;
}

static bool wait_for(atomic_uint *counter, unsigned n)
{
	for (int i = 0; i < 12000 && *counter < n; i++)
		cairn_sleep_ms(5);
	return *counter == n;
}

/* Puts a pair into DIR/NAME/ and swaps ..data to it, as a kubelet does. */
static void swap_data(const struct world *w, const char *name, const struct tls_pair *pair)
{
	char dir[512];

	snprintf(dir, sizeof(dir), "%s/%s", w->dir, name);
	assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
	tls_cert_write(dir, "tls.crt", pair);
	tls_key_write(dir, "tls.key", pair);
	assert_int_equal(symlink(name, path(w, "..data_tmp")), 0);
	assert_int_equal(rename(path(w, "..data_tmp"), path(w, "..data")), 0);
}

static void a_swapped_secret_is_picked_up(void **state)
{
	const struct world *w = *state;
	struct net_tls_options s = server_options(w), c = client_options(w);
	cairn_cleanup(net_tls_freep) struct net_tls *server = NULL;
	cairn_cleanup(net_tls_freep) struct net_tls *client = NULL;
	struct net_tls_watch *watch;
	struct seen seen = {0};
	struct cairn_err err = {0};

	swap_data(w, "a", &w->server1);
	assert_int_equal(remove(path(w, "tls.crt")) + remove(path(w, "tls.key")), 0);
	assert_int_equal(symlink("..data/tls.crt", path(w, "tls.crt")), 0);
	assert_int_equal(symlink("..data/tls.key", path(w, "tls.key")), 0);
	assert_ok(net_tls_server_new(&s, &server, &err), &err);
	assert_ok(net_tls_client_new(&c, &client, &err), &err);
	assert_ok(net_tls_watch_new(server,
				    &(struct net_tls_watch_options){.settle_ms = 5,
								    .look_ms = 600000,
								    .changed = on_change,
								    .arg = &seen},
				    &watch, &err),
		  &err);
	assert_string_equal(meet(server, client, NULL).server_cn, "one");
	swap_data(w, "b", &w->server2);
	assert_true(wait_for(&seen.good, 1));
	assert_string_equal(meet(server, client, NULL).server_cn, "two");
	/* A pair that does not fit together: reported once, nothing changes. */
	tls_cert_write(path(w, "a"), "tls.crt", &w->server1);
	tls_key_write(path(w, "a"), "tls.key", &w->client);
	assert_int_equal(symlink("a", path(w, "..data_tmp")), 0);
	assert_int_equal(rename(path(w, "..data_tmp"), path(w, "..data")), 0);
	assert_true(wait_for(&seen.bad, 1));
	assert_string_equal(meet(server, client, NULL).server_cn, "two");
	net_tls_watch_free(watch);
	assert_int_equal(seen.good, 1);
	assert_int_equal(remove(path(w, "tls.crt")) + remove(path(w, "tls.key")), 0);
	write_pair(w, &w->server1);
}

static void a_change_without_a_sign_is_found_by_looking(void **state)
{
	const struct world *w = *state;
	struct net_tls_options s = server_options(w);
	cairn_cleanup(net_tls_freep) struct net_tls *server = NULL;
	struct net_tls_watch *watch;
	struct seen seen = {0};
	struct cairn_err err = {0};
	char elsewhere[512];

	/* The file is a link to a directory that is not watched. */
	snprintf(elsewhere, sizeof(elsewhere), "%s/a", w->dir);
	tls_cert_write(elsewhere, "tls.crt", &w->server1);
	tls_key_write(elsewhere, "tls.key", &w->server1);
	assert_int_equal(remove(path(w, "tls.crt")) + remove(path(w, "tls.key")), 0);
	assert_int_equal(symlink("a/tls.crt", path(w, "tls.crt")), 0);
	assert_int_equal(symlink("a/tls.key", path(w, "tls.key")), 0);
	assert_ok(net_tls_server_new(&s, &server, &err), &err);
	assert_ok(net_tls_watch_new(server,
				    &(struct net_tls_watch_options){.settle_ms = 5,
								    .look_ms = 20,
								    .changed = on_change,
								    .arg = &seen},
				    &watch, &err),
		  &err);
	tls_cert_write(elsewhere, "tls.crt", &w->server2);
	tls_key_write(elsewhere, "tls.key", &w->server2);
	assert_true(wait_for(&seen.good, 1));
	net_tls_watch_free(watch);
	assert_int_equal(remove(path(w, "tls.crt")) + remove(path(w, "tls.key")), 0);
	write_pair(w, &w->server1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_give_tls_1_3_and_h2),
		cmocka_unit_test(the_server_must_have_the_name_asked_for),
		cmocka_unit_test(authorities_may_come_as_text),
		cmocka_unit_test(versions_suites_and_curves_are_what_was_set),
		cmocka_unit_test(protocols_without_overlap_end_the_handshake),
		cmocka_unit_test(a_client_authority_demands_a_certificate),
		cmocka_unit_test(settings_that_cannot_work_are_refused),
		cmocka_unit_test(a_bad_pair_leaves_the_old_one_in_use),
		cmocka_unit_test(sessions_outlive_a_reload_and_the_settings),
		cmocka_unit_test(a_swapped_secret_is_picked_up),
		cmocka_unit_test(a_change_without_a_sign_is_found_by_looking),
	};

	return cmocka_run_group_tests_name("net/tls", tests, setup, teardown);
}
