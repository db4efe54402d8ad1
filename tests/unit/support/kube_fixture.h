/* SPDX-License-Identifier: Apache-2.0 */

/* An HTTPS server that a test scripts, for what a real API server does not do
 * on demand: failures, refusals, broken answers. */
#ifndef CAIRN_TESTS_UNIT_KUBE_FIXTURE_H
#define CAIRN_TESTS_UNIT_KUBE_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kube_client;
struct kube_client_options;
struct kube_config;
struct net_http;

#define SCRIPTED_SEEN_MAX 256

/* A request as it came. */
struct scripted_request {
	char method[8];
	char path[512];
	char query[2048];
	char authorization[256];
	char content_type[64];
	char body[4096];
};

struct scripted_server;

/* Answers the `n`-th request (from 0): with scripted_reply() or net_http.h. */
typedef int (*scripted_answer)(struct scripted_server *server, struct net_http *http, unsigned n,
			       const struct scripted_request *request);

struct scripted_server {
	char dir[64]; /* ca.pem, and what tests put there */
	uint16_t port;
	struct net_http_server *http;
	struct net_tls *tls;
	scripted_answer answer;
	void *arg;

	pthread_mutex_t lock;
	unsigned n_seen;
	struct scripted_request seen[SCRIPTED_SEEN_MAX];
};

void scripted_start(struct scripted_server *server, scripted_answer answer, void *arg);
void scripted_stop(struct scripted_server *server);
unsigned scripted_count(struct scripted_server *server);

/* A whole answer; `retry_after` NULL sends none. */
int scripted_reply(struct net_http *http, int status, const char *retry_after, const char *body);

/* A metav1.Status. */
int scripted_status(struct net_http *http, int status, const char *reason, const char *message,
		    const char *retry_after);

/* A kubeconfig for it whose user has these lines ("token: x"), and a client. */
struct kube_config *scripted_config(struct scripted_server *server, const char *user);
struct kube_client *scripted_client(struct scripted_server *server, const char *user,
				    const struct kube_client_options *options);

void scripted_write(struct scripted_server *server, const char *name, const char *text);

#endif
