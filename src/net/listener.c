/* SPDX-License-Identifier: Apache-2.0 */

/* Sockets that connections come from. They live on the server's first loop. */

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/accept_floods.h"
#include "net/accept_queues.h"
#include "net/address.h"
#include "net/grpc/grpc_server_impl.h"
#include "net/peer.h"

#define ACCEPTS_PER_TURN 4   /* of one queue */
#define PAUSE_MS         100 /* when the process is out of descriptors */

struct net_listener {
	struct net_listener *next;
	struct net_server *server;
	struct net_tls *tls;
	char *path; /* of a unix socket */
	dev_t dev;  /* identify the file at `path` */
	ino_t ino;
	int fd;
	struct net_accept_floods *floods; /* of the address; NULL for a unix socket */
	bool owns_floods;
	struct event *readable;
	struct net_timer pause;
};

static int add_listener(struct net_server *server, int *fd, const char *path, struct net_tls *tls,
			struct cairn_err *err)
{
	struct net_listener *l = cairn_calloc(1, sizeof(*l));
	struct stat st;

	if (!l)
		return cairn_err_nomem(err, "listener");
	if (path) {
		l->path = cairn_strdup(path);
		if (!l->path || lstat(path, &st) < 0) {
			free(l->path);
			free(l);
			return cairn_err_nomem(err, "listener");
		}
		l->dev = st.st_dev;
		l->ino = st.st_ino;
	}
	l->server = server;
	l->tls = tls;
	l->fd = cairn_take_fd(fd);
	l->next = server->listeners;
	server->listeners = l;
	return 0;
}

/* Removes a socket file without a listening process. */
static int clear_stale(const char *path, const struct net_address *address, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "socket '%s'", path);
	if (!S_ISSOCK(st.st_mode))
		return cairn_err_set(err, CAIRN_EXISTS, "'%s' exists and is not a socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cairn_err_sys(err, errno, "socket");
	if (connect(fd, (const struct sockaddr *)&address->addr, address->len) == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "another process listens on '%s'", path);
	if (errno != ECONNREFUSED)
		return cairn_err_sys(err, errno, "socket '%s'", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove stale socket '%s'", path);
	return 0;
}

int net_server_listen_unix(struct net_server *server, const char *path, unsigned mode,
			   struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct net_address address;
	mode_t before;
	int rc = net_address_unix(path, &address, err);

	if (rc == 0)
		rc = clear_stale(path, &address, err);
	if (rc != 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cairn_err_sys(err, errno, "socket");
	/* No client may connect between bind and chmod. */
	before = umask(0777);
	rc = bind(fd, (const struct sockaddr *)&address.addr, address.len);
	umask(before);
	if (rc < 0)
		return cairn_err_sys(err, errno, "bind '%s'", path);
	if (chmod(path, mode) < 0 || listen(fd, SOMAXCONN) < 0)
		return cairn_err_sys(err, errno, "listen on '%s'", path);
	return add_listener(server, &fd, path, NULL, err);
}

/* The listener of the first queue owns `*floods`. */
static int add_queues(struct net_server *server, int *fds, int n, struct net_accept_floods **floods,
		      struct net_tls *tls, struct cairn_err *err)
{
	struct net_accept_floods *shared = *floods;
	int rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		rc = add_listener(server, &fds[i], NULL, tls, err);
		if (rc != 0)
			break;
		server->listeners->floods = shared;
		server->listeners->owns_floods = i == 0;
		*floods = NULL;
	}
	return rc;
}

int net_server_listen_tcp(struct net_server *server, const char *address, struct net_tls *tls,
			  uint16_t *ret_port, struct cairn_err *err)
{
	cairn_cleanup(net_accept_floods_freep) struct net_accept_floods *floods = NULL;
	int fds[NET_ACCEPT_QUEUES], n, rc;
	struct net_address parsed;

	rc = net_address_parse(address, &parsed, err);
	if (rc != 0)
		return rc;
	if (!tls && !net_address_is_loopback(&parsed))
		return cairn_err_set(err, CAIRN_INVALID,
				     "cleartext is served on loopback only, not on %s", address);
	n = net_accept_queues_open(&parsed, address, fds, &floods, ret_port, err);
	if (n < 0)
		return n;
	rc = add_queues(server, fds, n, &floods, tls, err);
	/* Those that were added belong to the server. */
	for (int i = 0; i < n; i++)
		cairn_closep(&fds[i]);
	return rc;
}

/* --- accepting --- */

bool net_server_admit(struct net_server *server, int fd, struct net_tls *tls)
{
	struct net_shared_peer *peer = net_peer_of(fd);
	bool calm;
	int on = 1;

	if (!peer || !net_peer_admit(peer, server->shares, fd, tls != NULL)) {
		net_peer_unref(peer);
		net_accept_refuse(fd);
		return false;
	}
	calm = !peer->slot.crowd;
	peer->request_bytes_max = server->limits.request_bytes_connection;
	if (!peer->peer.is_unix)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	net_server_take(server, fd, tls, peer);
	return calm;
}

static void accept_connection(struct net_listener *l, int fd, const struct sockaddr_storage *from)
{
	if (!net_server_admit(l->server, fd, l->tls) && l->floods)
		(void)net_accept_floods_report(l->floods, l->fd, from, cairn_monotonic_ns());
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg)
{
	struct net_listener *l = arg;

	(void)what;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
		socklen_t len = sizeof(from);
		int conn =
			accept4(fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (conn >= 0) {
			accept_connection(l, conn, &from);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK) {
			/* No descriptors or memory: connections stay in the backlog; pause,
			 * because polling would spin. */
			event_del(l->readable);
			net_timer_set(&l->pause, PAUSE_MS);
		}
		return;
	}
}

static void listener_resume(void *arg)
{
	struct net_listener *l = arg;

	event_add(l->readable, NULL);
}

void net_listeners_start(struct net_server *server)
{
	struct net_loop *loop = server->parts[0].loop;

	for (struct net_listener *l = server->listeners; l; l = l->next) {
		l->readable = event_new(net_loop_base(loop), l->fd, EV_READ | EV_PERSIST,
					on_acceptable, l);
		net_timer_init(&l->pause, loop, listener_resume, l);
		if (l->readable)
			event_add(l->readable, NULL);
	}
}

/* The file is removed only if it is still ours: a successor may have replaced it. */
static void remove_path(const struct net_listener *l)
{
	struct stat st;

	if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
}

void net_listeners_free(struct net_server *server)
{
	while (server->listeners) {
		struct net_listener *l = server->listeners;

		server->listeners = l->next;
		net_timer_done(&l->pause);
		if (l->readable)
			event_free(l->readable);
		remove_path(l);
		close(l->fd);
		if (l->owns_floods)
			net_accept_floods_free(l->floods);
		free(l->path);
		free(l);
	}
}
