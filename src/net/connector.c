/* SPDX-License-Identifier: Apache-2.0 */

#include "net/connector.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/loop.h"

#define ADDRESSES_MAX 8 /* addresses of one name that are tried */

struct net_connector {
	struct net_loop *loop;
	net_connected done;
	void *arg;
	bool is_unix, is_literal;
	char *authority, *host, *port;

	struct net_address addresses[ADDRESSES_MAX];
	unsigned n_addresses, next;
	int fd;
	struct event *writable;
	struct net_timer timer;
	uint64_t wait_ms;

	/* A name lookup. */
	pthread_t thread;
	bool looking;
	bool orphaned;   /* the connector stopped while the lookup was running */
	bool free_later; /* free the connector when that lookup has finished */
	int lookup_rc;
	struct net_task looked_up;
};

static int set_target(struct net_connector *c, const char *target, struct cairn_err *err)
{
	const char *colon;
	size_t n;

	if (strncmp(target, "unix:", 5) == 0) {
		const char *path = target + 5;

		if (strncmp(path, "//", 2) == 0)
			path += 2;
		c->is_unix = c->is_literal = true;
		c->n_addresses = 1;
		c->authority = cairn_strdup("localhost");
		if (!c->authority)
			return cairn_err_nomem(err, "target");
		return net_address_unix(path, &c->addresses[0], err);
	}
	colon = strrchr(target, ':');
	if (!colon || colon == target || !colon[1])
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is not a target such as unix:/path or host:port",
				     target);
	c->is_literal = net_address_parse(target, &c->addresses[0], NULL) == 0;
	c->n_addresses = c->is_literal;
	n = (size_t)(colon - target);
	if (target[0] == '[' && target[n - 1] == ']')
		c->host = cairn_strndup(target + 1, n - 2);
	else
		c->host = cairn_strndup(target, n);
	c->port = cairn_strdup(colon + 1);
	c->authority = cairn_strdup(target);
	if (!c->host || !c->port || !c->authority)
		return cairn_err_nomem(err, "target");
	return 0;
}

int net_connector_new(const char *target, struct net_loop *loop, net_connected done, void *arg,
		      struct net_connector **ret, struct cairn_err *err)
{
	struct net_connector *c = cairn_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return cairn_err_nomem(err, "connector");
	c->loop = loop;
	c->done = done;
	c->arg = arg;
	c->fd = -1;
	rc = set_target(c, target, err);
	if (rc != 0) {
		net_connector_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

void net_connector_free(struct net_connector *c)
{
	if (!c)
		return;
	if (c->orphaned) {
		c->free_later = true;
		return;
	}
	free(c->authority);
	free(c->host);
	free(c->port);
	free(c);
}

const char *net_connector_authority(const struct net_connector *c)
{
	return c->authority;
}

const char *net_connector_host(const struct net_connector *c)
{
	return c->host;
}

bool net_connector_is_local(const struct net_connector *c)
{
	if (c->is_literal)
		return net_address_is_loopback(&c->addresses[0]);
	return strcmp(c->host, "localhost") == 0;
}

static void connector_clean(struct net_connector *c)
{
	if (c->writable)
		event_free(c->writable);
	c->writable = NULL;
	net_timer_done(&c->timer);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void connector_finish(struct net_connector *c, const struct cairn_err *err)
{
	int fd = err ? -1 : cairn_take_fd(&c->fd);

	connector_clean(c);
	c->done(c->arg, fd, err);
}

static void connector_fail(struct net_connector *c, int sys_errno)
{
	struct cairn_err err = {0};

	cairn_err_sys(&err, sys_errno, "connect to %s", c->is_unix ? "socket" : c->authority);
	err.code = CAIRN_UNAVAILABLE; /* ENOENT of a socket is a server that is not there yet */
	connector_finish(c, &err);
}

static void try_next(struct net_connector *c, int last_errno);

static void connector_on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct net_connector *c = arg;
	int problem = 0;
	socklen_t n = sizeof(problem);

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &n) < 0)
		problem = errno;
	if (problem == 0) {
		connector_finish(c, NULL);
		return;
	}
	event_free(c->writable);
	c->writable = NULL;
	close(c->fd);
	c->fd = -1;
	try_next(c, problem);
}

static void try_next(struct net_connector *c, int last_errno)
{
	while (c->next < c->n_addresses) {
		const struct net_address *a = &c->addresses[c->next++];
		int on = 1;

		c->fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (c->fd < 0) {
			last_errno = errno;
			continue;
		}
		if (!c->is_unix)
			setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (connect(c->fd, (const struct sockaddr *)&a->addr, a->len) == 0) {
			connector_finish(c, NULL);
			return;
		}
		last_errno = errno;
		if (errno == EINPROGRESS) {
			c->writable = event_new(net_loop_base(c->loop), c->fd, EV_WRITE,
						connector_on_writable, c);
			if (c->writable && event_add(c->writable, NULL) == 0)
				return;
			last_errno = ENOMEM;
		}
		close(c->fd);
		c->fd = -1;
	}
	connector_fail(c, last_errno);
}

static void timed_out(void *arg)
{
	connector_fail(arg, ETIMEDOUT);
}

static void begin_trying(struct net_connector *c)
{
	net_timer_init(&c->timer, c->loop, timed_out, c);
	net_timer_set(&c->timer, c->wait_ms);
	try_next(c, ENOENT);
}

static void *connector_look_up(void *arg)
{
	struct net_connector *c = arg;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	struct addrinfo *list = NULL;

	c->lookup_rc = getaddrinfo(c->host, c->port, &hints, &list);
	c->n_addresses = 0;
	for (struct addrinfo *ai = c->lookup_rc == 0 ? list : NULL;
	     ai && c->n_addresses < ADDRESSES_MAX; ai = ai->ai_next) {
		struct net_address *a = &c->addresses[c->n_addresses++];

		memcpy(&a->addr, ai->ai_addr, ai->ai_addrlen);
		a->len = ai->ai_addrlen;
	}
	if (c->lookup_rc == 0)
		freeaddrinfo(list);
	net_loop_post(c->loop, &c->looked_up);
	return NULL;
}

static void on_looked_up(struct net_task *task)
{
	struct net_connector *c =
		(struct net_connector *)(void *)((char *)task -
						 offsetof(struct net_connector, looked_up));
	struct cairn_err err = {0};

	if (c->orphaned) {
		c->orphaned = false;
		if (c->free_later)
			net_connector_free(c);
		return;
	}
	c->looking = false;
	pthread_join(c->thread, NULL);
	if (c->lookup_rc == 0) {
		begin_trying(c);
		return;
	}
	cairn_err_set(&err, CAIRN_UNAVAILABLE, "look up %s: %s", c->host,
		      gai_strerror(c->lookup_rc));
	connector_finish(c, &err);
}

void net_connector_start(struct net_connector *c, uint64_t wait_ms)
{
	int rc;

	c->next = 0;
	c->wait_ms = wait_ms;
	if (c->is_literal) {
		begin_trying(c);
		return;
	}
	c->looked_up.run = on_looked_up;
	rc = cairn_thread_start(&c->thread, NULL, NULL, connector_look_up, c);
	if (rc != 0)
		connector_fail(c, rc);
	else
		c->looking = true;
}

void net_connector_stop(struct net_connector *c)
{
	if (c->looking) {
		/* getaddrinfo() cannot be interrupted. The thread posted its result, which the
		 * loop runs later: until then the connector must not be freed. */
		pthread_join(c->thread, NULL);
		c->looking = false;
		c->orphaned = true;
	}
	connector_clean(c);
}
