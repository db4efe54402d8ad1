/* SPDX-License-Identifier: Apache-2.0 */

#include "kube_fixture.h"

#include "cairntest.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "net/http/http_server.h"
#include "net/tls/tls_settings.h"
#include "tls_files.h"

static void copy(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%s", from ? from : "");
}

static unsigned note(struct scripted_server *server, struct net_http *http,
		     struct scripted_request *request)
{
	size_t n;
	const char *body = net_http_body(http, &n);

	memset(request, 0, sizeof(*request));
	copy(request->method, sizeof(request->method), net_http_method(http));
	copy(request->path, sizeof(request->path), net_http_path(http));
	copy(request->query, sizeof(request->query), net_http_query(http));
	copy(request->authorization, sizeof(request->authorization),
	     net_http_field(http, "authorization"));
	copy(request->content_type, sizeof(request->content_type),
	     net_http_field(http, "content-type"));
	if (n >= sizeof(request->body))
		n = sizeof(request->body) - 1;
	if (n > 0)
		memcpy(request->body, body, n);
	cairn_scoped_lock(&server->lock);
	if (server->n_seen < SCRIPTED_SEEN_MAX)
		server->seen[server->n_seen] = *request;
	return server->n_seen++;
}

static int serve(struct net_http *http, void *arg, struct cairn_err *err)
{
	struct scripted_server *server = arg;
	struct scripted_request request;
	unsigned n = note(server, http, &request);

	(void)err;
	return server->answer(server, http, n, &request);
}

static void make_certificates(struct scripted_server *server)
{
	struct tls_pair ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "ca", .not_before = -60, .not_after = 3600});
	struct tls_pair leaf = tls_pair_make(
		&(struct tls_pair_spec){.name = "server",
					.alt = "DNS:localhost,IP:127.0.0.1,DNS:other.name",
					.issuer = &ca,
					.not_before = -60,
					.not_after = 3600});

	tls_cert_write(server->dir, "ca.pem", &ca);
	tls_cert_write(server->dir, "cert.pem", &leaf);
	tls_key_write(server->dir, "key.pem", &leaf);
	tls_pair_done(&leaf);
	tls_pair_done(&ca);
}

void scripted_start(struct scripted_server *server, scripted_answer answer, void *arg)
{
	static const struct net_http_options options = {.name = "script"};
	const struct net_http_route route = {.path = "/", .handler = serve, .arg = server};
	char cert[96], key[96];
	struct cairn_err err = {0};

	memset(server, 0, sizeof(*server));
	scratch_template(server->dir, "kube");
	assert_non_null(mkdtemp(server->dir));
	pthread_mutex_init(&server->lock, NULL);
	server->answer = answer;
	server->arg = arg;
	make_certificates(server);
	snprintf(cert, sizeof(cert), "%s/cert.pem", server->dir);
	snprintf(key, sizeof(key), "%s/key.pem", server->dir);
	assert_ok(net_tls_server_new(&(struct net_tls_options){.cert_file = cert,
							       .key_file = key,
							       .http1 = true},
				     &server->tls, &err),
		  &err);
	assert_ok(net_http_server_new(&options, &server->http, &err), &err);
	assert_ok(net_http_server_add(server->http, &route, 1, &err), &err);
	assert_ok(net_http_server_listen(server->http, "127.0.0.1:0", server->tls, &server->port,
					 &err),
		  &err);
	assert_ok(net_http_server_start(server->http, &err), &err);
}

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void scripted_stop(struct scripted_server *server)
{
	net_http_server_free(server->http);
	net_tls_free(server->tls);
	pthread_mutex_destroy(&server->lock);
	nftw(server->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

unsigned scripted_count(struct scripted_server *server)
{
	cairn_scoped_lock(&server->lock);
	return server->n_seen;
}

int scripted_reply(struct net_http *http, int status, const char *retry_after, const char *body)
{
	if (retry_after)
		assert_int_equal(net_http_add_field(http, "Retry-After", retry_after, NULL), 0);
	return net_http_reply(http, status, "application/json", body, strlen(body), NULL);
}

int scripted_status(struct net_http *http, int status, const char *reason, const char *message,
		    const char *retry_after)
{
	char body[1024];

	snprintf(body, sizeof(body),
		 "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\","
		 "\"message\":\"%s\",\"reason\":\"%s\",\"code\":%d}",
		 message, reason, status);
	return scripted_reply(http, status, retry_after, body);
}

void scripted_write(struct scripted_server *server, const char *name, const char *text)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", server->dir, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

struct kube_config *scripted_config(struct scripted_server *server, const char *user)
{
	struct kube_config *config = NULL;
	struct cairn_err err = {0};
	char text[2048], path[96];

	snprintf(text, sizeof(text),
		 "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		 "clusters:\n- name: k\n  cluster: {server: 'https://127.0.0.1:%u', "
		 "certificate-authority: ca.pem}\n"
		 "contexts:\n- name: c\n  context: {cluster: k, user: u, namespace: here}\n"
		 "users:\n- name: u\n  user:\n    %s\n",
		 server->port, user);
	snprintf(path, sizeof(path), "%s/config", server->dir);
	assert_ok(kube_config_parse(text, strlen(text), path, NULL, &config, &err), &err);
	return config;
}

struct kube_client *scripted_client(struct scripted_server *server, const char *user,
				    const struct kube_client_options *options)
{
	struct kube_config *config = scripted_config(server, user);
	struct kube_client *client = NULL;
	struct cairn_err err = {0};

	assert_ok(kube_client_new(config, options, &client, &err), &err);
	kube_config_free(config);
	return client;
}
