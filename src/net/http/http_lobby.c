/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_lobby.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "net/http/http_server_impl.h"
#include "net/limit_events.h"
#include "net/loop.h"

#define EVENTS 64

/* A connection of a crowd gets a thread when as much has arrived as the shortest request head
 * ("GET / HTTP/1.0" and an empty line) or ClientHello has. */
#define HEAD_BYTES  18
#define HELLO_BYTES 50

struct net_http_lobby {
	struct net_http_server *server;
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool runs;
	atomic_bool stop;

	/* Guards the list, oldest first. It is held for a moment only, because its holder may
	 * have a low priority. */
	pthread_mutex_t lock;
	struct net_http_connection *first, *last;
};

int net_http_lobby_new(struct net_http_server *server, struct net_http_lobby **ret,
		       struct cairn_err *err)
{
	struct net_http_lobby *lobby = cairn_calloc(1, sizeof(*lobby));
	struct epoll_event wake = {.events = EPOLLIN};

	if (!lobby)
		return cairn_err_nomem(err, "HTTP server");
	lobby->server = server;
	pthread_mutex_init(&lobby->lock, NULL);
	lobby->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	lobby->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lobby->epoll_fd < 0 || lobby->wake_fd < 0 ||
	    epoll_ctl(lobby->epoll_fd, EPOLL_CTL_ADD, lobby->wake_fd, &wake) != 0 ||
	    epoll_ctl(lobby->epoll_fd, EPOLL_CTL_ADD, server->acceptor.crowded_fd, &wake) != 0) {
		int rc = cairn_err_sys(err, errno, "HTTP server");

		net_http_lobby_free(lobby);
		return rc;
	}
	*ret = lobby;
	return 0;
}

void net_http_lobby_free(struct net_http_lobby *lobby)
{
	if (!lobby)
		return;
	cairn_closep(&lobby->epoll_fd);
	cairn_closep(&lobby->wake_fd);
	pthread_mutex_destroy(&lobby->lock);
	free(lobby);
}

/* --- the list --- */

static void await_bytes(const struct net_http_connection *connection, int n)
{
	(void)setsockopt(connection->stream.fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n));
}

/* Appends and watches it; true if the list was empty. The thread may free the connection as
 * soon as the lock is released. If it cannot be watched, it is closed at its time. */
static bool lobby_append(struct net_http_lobby *lobby, struct net_http_connection *connection)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT,
				    .data.ptr = connection};

	cairn_scoped_lock(&lobby->lock);
	(void)epoll_ctl(lobby->epoll_fd, EPOLL_CTL_ADD, connection->stream.fd, &event);
	connection->prev = lobby->last;
	if (connection->prev)
		connection->prev->next = connection;
	else
		lobby->first = connection;
	lobby->last = connection;
	return !connection->prev;
}

static void lobby_remove(struct net_http_lobby *lobby, struct net_http_connection *connection)
{
	cairn_scoped_lock(&lobby->lock);
	if (connection->prev)
		connection->prev->next = connection->next;
	else
		lobby->first = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	else
		lobby->last = connection->prev;
	connection->prev = connection->next = NULL;
}

static struct net_http_connection *lobby_oldest(struct net_http_lobby *lobby)
{
	cairn_scoped_lock(&lobby->lock);
	return lobby->first;
}

/* --- the thread --- */

/* A displaced connection is closed: that frees its resources. */
static void lobby_leave(struct net_http_lobby *lobby, struct net_http_connection *connection,
			bool speaks)
{
	lobby_remove(lobby, connection);
	(void)epoll_ctl(lobby->epoll_fd, EPOLL_CTL_DEL, connection->stream.fd, NULL);
	if (speaks && !atomic_load(&connection->slot.displaced)) {
		await_bytes(connection, 1);
		net_http_connection_begin(connection);
	} else {
		net_http_connection_drop(connection);
	}
}

/* Closes connections that were silent for too long; returns the time until the next one, in
 * milliseconds, or -1. The limit of TLS is longer than that of cleartext; a connection is
 * closed when it is the oldest, so after the longer limit at the latest. */
static int lobby_expire(struct net_http_lobby *lobby)
{
	struct net_http_connection *oldest;
	uint64_t now = cairn_monotonic_ns();

	while ((oldest = lobby_oldest(lobby)) && oldest->lobby_until_ns <= now) {
		net_limit_count(NET_LIMIT_FIRST_BYTE_TIME);
		lobby_leave(lobby, oldest, false);
	}
	return oldest ? (int)((oldest->lobby_until_ns - now) / CAIRN_NS_PER_MS) + 1 : -1;
}

static int lobby_wait_ms(struct net_http_lobby *lobby)
{
	int accept_ms = net_http_acceptor_serve_crowded(lobby->server);
	int expire_ms = lobby_expire(lobby);

	return expire_ms < 0 || (accept_ms >= 0 && accept_ms < expire_ms) ? accept_ms : expire_ms;
}

/* Only this thread removes connections, so every event refers to one that still exists. Events
 * without a connection only make it look again. */
static void *lobby_run(void *arg)
{
	struct net_http_lobby *lobby = arg;
	struct epoll_event events[EVENTS];

	net_loop_yield_to_others(NULL);
	while (!atomic_load(&lobby->stop)) {
		int n = epoll_wait(lobby->epoll_fd, events, EVENTS, lobby_wait_ms(lobby));

		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				lobby_leave(lobby, events[i].data.ptr,
					    !(events[i].events & (EPOLLHUP | EPOLLERR)));
			else
				(void)eventfd_read(lobby->wake_fd, &(eventfd_t){0});
		}
	}
	return NULL;
}

bool net_http_lobby_start(struct net_http_lobby *lobby, const char *name)
{
	lobby->runs = net_http_start_thread(&lobby->thread, false, lobby_run, lobby, name);
	return lobby->runs;
}

void net_http_lobby_stop(struct net_http_lobby *lobby)
{
	struct net_http_connection *connection;

	if (!lobby || !lobby->runs)
		return;
	atomic_store(&lobby->stop, true);
	net_http_lobby_wake(lobby);
	pthread_join(lobby->thread, NULL);
	lobby->runs = false;
	while ((connection = lobby_oldest(lobby)))
		lobby_leave(lobby, connection, false);
}

void net_http_lobby_add(struct net_http_lobby *lobby, struct net_http_connection *connection)
{
	const struct net_http_limits *l = &connection->server->limits;

	connection->lobby_until_ns = cairn_after_ms(connection->tls ? l->header_ms : l->first_ms);
	await_bytes(connection, connection->tls ? HELLO_BYTES : HEAD_BYTES);
	if (lobby_append(lobby, connection)) /* the thread waits without a timeout */
		net_http_lobby_wake(lobby);
}

void net_http_lobby_wake(struct net_http_lobby *lobby)
{
	(void)eventfd_write(lobby->wake_fd, 1);
}
