/* SPDX-License-Identifier: Apache-2.0 */

/* Accepts connections from the queues of all listeners (net/accept_queues.h).
 *
 * A thread of normal priority serves the queues. A connection of a crowd, or one that is refused,
 * is reported (net/accept_floods.h), and the next ones of a flood arrive in other queues. The
 * thread of the lobby serves such a queue for the next second: a flood is then accepted at low
 * priority, and the first thread sleeps until a caller comes. It also serves calm queues with
 * connections of crowds when there are more floods than can be told apart. Other connections of
 * these queues are returned to the first thread.
 */
#ifndef CAIRN_NET_HTTP_ACCEPTOR_H
#define CAIRN_NET_HTTP_ACCEPTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/accept_queues.h"

#define NET_HTTP_LISTENERS_MAX 4

struct cairn_err;
struct net_accept_floods;
struct net_address;
struct net_http_connection;
struct net_http_server;
struct net_tls;

struct net_http_queue {
	int fd;
	bool for_floods;
	struct net_accept_floods *floods; /* of its listener */
	struct net_tls *tls;
	_Atomic uint64_t crowded_until_ns; /* not 0 while the lobby serves it */
};

struct net_http_acceptor {
	struct net_http_queue queues[NET_HTTP_LISTENERS_MAX * NET_ACCEPT_QUEUES];
	unsigned n_queues;
	struct net_accept_floods *floods[NET_HTTP_LISTENERS_MAX];
	unsigned n_floods;
	int wake_fd;
	int quiet_fd, crowded_fd; /* epoll: the queues of the thread, and those of the lobby */
	_Atomic unsigned n_crowded;
	struct net_http_connection *_Atomic returned; /* by the lobby, linked by `next` */
	pthread_t thread;
	bool runs;
	atomic_bool stop;
};

/* False with errno set if descriptors are short. */
bool net_http_acceptor_init(struct net_http_acceptor *acceptor);

/* Accepts one that failed to init. */
void net_http_acceptor_done(struct net_http_acceptor *acceptor);

/* Before the start; `text` names the address in messages. */
int net_http_acceptor_listen(struct net_http_acceptor *acceptor, const struct net_address *address,
			     const char *text, struct net_tls *tls, uint16_t *ret_port,
			     struct cairn_err *err);

/* Closes the queues; call after both threads have ended. */
void net_http_acceptor_close(struct net_http_acceptor *acceptor);

bool net_http_acceptor_start(struct net_http_server *server);
void net_http_acceptor_stop(struct net_http_acceptor *acceptor);

/* Makes the thread look for returned connections, and for memory to return to the system. */
void net_http_acceptor_wake(struct net_http_acceptor *acceptor);

/* On the thread of the lobby, when `crowded_fd` is readable or the returned time is over:
 * accepts from the crowded queues, and returns those that have calmed down to the acceptor.
 * Returns milliseconds, or -1. */
int net_http_acceptor_serve_crowded(struct net_http_server *server);

#endif
