/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_acceptor.h"

#include <errno.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/wait.h"
#include "net/accept_floods.h"
#include "net/http/http_lobby.h"
#include "net/http/http_server_impl.h"

#define EVENTS     64
#define CROWDED_MS 1000 /* after the last connection of a crowd */
#define LOOK_MS    100  /* how often the lobby looks for queues that have calmed down */

bool net_http_acceptor_init(struct net_http_acceptor *acceptor)
{
	struct epoll_event wake = {.events = EPOLLIN};

	acceptor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	acceptor->quiet_fd = epoll_create1(EPOLL_CLOEXEC);
	acceptor->crowded_fd = epoll_create1(EPOLL_CLOEXEC);
	return acceptor->wake_fd >= 0 && acceptor->quiet_fd >= 0 && acceptor->crowded_fd >= 0 &&
	       epoll_ctl(acceptor->quiet_fd, EPOLL_CTL_ADD, acceptor->wake_fd, &wake) == 0;
}

int net_http_acceptor_listen(struct net_http_acceptor *acceptor, const struct net_address *address,
			     const char *text, struct net_tls *tls, uint16_t *ret_port,
			     struct cairn_err *err)
{
	struct net_accept_floods *floods;
	int fds[NET_ACCEPT_QUEUES], n;

	if (acceptor->n_floods == NET_HTTP_LISTENERS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many HTTP listeners");
	n = net_accept_queues_open(address, text, fds, &floods, ret_port, err);
	if (n < 0)
		return n;
	acceptor->floods[acceptor->n_floods++] = floods;
	for (int i = 0; i < n; i++) {
		struct net_http_queue *queue = &acceptor->queues[acceptor->n_queues++];

		queue->fd = fds[i];
		queue->for_floods = i >= (int)NET_ACCEPT_QUEUES_CALM;
		queue->floods = floods;
		queue->tls = tls;
	}
	return 0;
}

static bool watch_queue(int epoll_fd, struct net_http_queue *queue, int op, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = queue};

	return epoll_ctl(epoll_fd, op, queue->fd, &event) == 0;
}

/* The thread of a connection inherits the priority of the one that starts it. So the lobby gives
 * connections that are not of a crowd, but were in the queue of one, to the acceptor. */
static void return_connection(struct net_http_acceptor *acceptor,
			      struct net_http_connection *connection)
{
	connection->next = atomic_load(&acceptor->returned);
	while (!atomic_compare_exchange_weak(&acceptor->returned, &connection->next, connection))
		;
	net_http_acceptor_wake(acceptor);
}

static void begin_returned(struct net_http_acceptor *acceptor)
{
	struct net_http_connection *connection = atomic_exchange(&acceptor->returned, NULL), *next;

	for (; connection; connection = next) {
		next = connection->next;
		connection->next = NULL;
		net_http_connection_begin(connection);
	}
}

/* Takes ownership of `fd`. Closes it above the limit or if memory is short. True if it was
 * closed or belongs to a crowd. */
static bool http_acceptor_adopt(struct net_http_server *server, int fd, struct net_tls *tls,
				bool crowded)
{
	struct net_http_connection *connection = net_http_connection_new(server, fd, tls);

	if (!connection) {
		net_accept_refuse(fd);
		return true;
	}
	if (connection->slot.crowd) {
		net_http_lobby_add(server->lobby, connection);
		return true;
	}
	if (crowded)
		return_connection(&server->acceptor, connection);
	else
		net_http_connection_begin(connection);
	return false;
}

/* Accepts one connection; the other queues come next. True if the lobby should serve the queue
 * for a while. */
static bool accept_one(struct net_http_server *server, const struct net_http_queue *queue,
		       bool crowded)
{
	struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(from);
	int fd = accept4(queue->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && http_acceptor_adopt(server, fd, queue->tls, crowded))
		return !net_accept_floods_report(queue->floods, queue->fd, &from,
						 cairn_monotonic_ns()) ||
		       queue->for_floods;
	if (fd >= 0)
		return false;
	/* Out of descriptors or memory: the connection stays in the backlog, so wait a little
	 * instead of spinning. */
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		cairn_sleep_ms(50);
	return false;
}

/* --- the lobby's part --- */

static void return_calm_queues(struct net_http_acceptor *acceptor)
{
	uint64_t now = cairn_monotonic_ns();

	for (unsigned i = 0; i < acceptor->n_queues; i++) {
		struct net_http_queue *queue = &acceptor->queues[i];
		uint64_t until = atomic_load(&queue->crowded_until_ns);

		if (until == 0 || until > now)
			continue;
		atomic_store(&queue->crowded_until_ns, 0);
		atomic_fetch_sub(&acceptor->n_crowded, 1);
		(void)watch_queue(acceptor->crowded_fd, queue, EPOLL_CTL_MOD, 0);
		(void)watch_queue(acceptor->quiet_fd, queue, EPOLL_CTL_MOD, EPOLLIN);
	}
}

int net_http_acceptor_serve_crowded(struct net_http_server *server)
{
	struct net_http_acceptor *acceptor = &server->acceptor;
	struct epoll_event events[EVENTS];
	int n;

	if (atomic_load(&acceptor->n_crowded) == 0)
		return -1;
	n = epoll_wait(acceptor->crowded_fd, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		struct net_http_queue *queue = events[i].data.ptr;

		if (accept_one(server, queue, true))
			atomic_store(&queue->crowded_until_ns, cairn_after_ms(CROWDED_MS));
	}
	return_calm_queues(acceptor);
	return LOOK_MS;
}

/* --- the thread --- */

static void hand_over(struct net_http_server *server, struct net_http_queue *queue)
{
	struct net_http_acceptor *acceptor = &server->acceptor;

	(void)watch_queue(acceptor->quiet_fd, queue, EPOLL_CTL_MOD, 0);
	atomic_fetch_add(&acceptor->n_crowded, 1);
	/* From here on the queue is the lobby's. */
	atomic_store(&queue->crowded_until_ns, cairn_after_ms(CROWDED_MS));
	(void)watch_queue(acceptor->crowded_fd, queue, EPOLL_CTL_MOD, EPOLLIN);
	net_http_lobby_wake(server->lobby);
}

/* Trimming takes the locks of the allocator, so it is done by a thread of normal priority:
 * others would wait while a slower one is preempted. */
static void acceptor_woken(struct net_http_server *server)
{
	eventfd_t n;

	(void)eventfd_read(server->acceptor.wake_fd, &n);
	begin_returned(&server->acceptor);
	if (atomic_exchange(&server->trim, false))
		malloc_trim(0);
}

static void *acceptor_run(void *arg)
{
	struct net_http_server *server = arg;
	struct net_http_acceptor *acceptor = &server->acceptor;
	struct epoll_event events[EVENTS];

	while (!atomic_load(&acceptor->stop)) {
		int n = epoll_wait(acceptor->quiet_fd, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (!events[i].data.ptr)
				acceptor_woken(server);
			else if (accept_one(server, events[i].data.ptr, false))
				hand_over(server, events[i].data.ptr);
		}
	}
	return NULL;
}

bool net_http_acceptor_start(struct net_http_server *server)
{
	struct net_http_acceptor *acceptor = &server->acceptor;

	for (unsigned i = 0; i < acceptor->n_queues; i++) {
		struct net_http_queue *queue = &acceptor->queues[i];

		if (!watch_queue(acceptor->quiet_fd, queue, EPOLL_CTL_ADD, EPOLLIN) ||
		    !watch_queue(acceptor->crowded_fd, queue, EPOLL_CTL_ADD, 0))
			return false;
	}
	acceptor->runs =
		net_http_start_thread(&acceptor->thread, false, acceptor_run, server, server->name);
	return acceptor->runs;
}

void net_http_acceptor_stop(struct net_http_acceptor *acceptor)
{
	if (!acceptor->runs)
		return;
	atomic_store(&acceptor->stop, true);
	net_http_acceptor_wake(acceptor);
	pthread_join(acceptor->thread, NULL);
	acceptor->runs = false;
}

void net_http_acceptor_wake(struct net_http_acceptor *acceptor)
{
	(void)eventfd_write(acceptor->wake_fd, 1);
}

void net_http_acceptor_close(struct net_http_acceptor *acceptor)
{
	for (unsigned i = 0; i < acceptor->n_queues; i++)
		cairn_closep(&acceptor->queues[i].fd);
	acceptor->n_queues = 0;
	while (acceptor->n_floods > 0)
		net_accept_floods_free(acceptor->floods[--acceptor->n_floods]);
	begin_returned(acceptor); /* which closes them: the server is stopping */
}

void net_http_acceptor_done(struct net_http_acceptor *acceptor)
{
	net_http_acceptor_close(acceptor);
	cairn_closep(&acceptor->quiet_fd);
	cairn_closep(&acceptor->crowded_fd);
	cairn_closep(&acceptor->wake_fd);
}
