/* SPDX-License-Identifier: Apache-2.0 */

/* A whole server connection: the input is what a client sends after the
 * preface. Whatever it is, the server must end the connection when the client
 * does, and forget everything about it. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "grpc_echo.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_server.h"
#include "net/grpc/grpc_server_impl.h"

#define WAIT_MS 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct net_server *make_server(void)
{
	const struct net_method methods[] = {
		{"/t.T/Unary", NET_UNARY, grpc_echo, NULL},
		{"/t.T/Quick", NET_UNARY, grpc_echo, NULL, .quick = true},
		{"/t.T/Chat", NET_BIDI, grpc_echo, NULL},
	};
	struct net_server_options options = {.limits = {.message_bytes = 65536, .workers = 4}};
	struct net_server *server = NULL;

	if (net_server_new(&options, &server, NULL) != 0 ||
	    net_server_add(server, methods, 3, NULL) != 0 || net_server_start(server, NULL) != 0)
		abort();
	return server;
}

static void drain(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char buf[4096];
	int rc;

	do {
		do {
			rc = poll(&wait, 1, WAIT_MS);
		} while (rc < 0 && errno == EINTR);
		if (rc != 1)
			abort(); /* the server hangs on */
	} while (read(fd, buf, sizeof(buf)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const char settings[] = "\0\0\0\4\0\0\0\0\0";
	static struct net_server *server;
	int fds[2];

	if (!server)
		server = make_server();
	if (size > 60000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return 0;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
		abort();
	(void)net_server_admit(server, fds[0], NULL);
	(void)!write(fds[1], preface, sizeof(preface) - 1);
	(void)!write(fds[1], settings, sizeof(settings) - 1);
	(void)!send(fds[1], data, size, MSG_NOSIGNAL);
	shutdown(fds[1], SHUT_WR);
	drain(fds[1]);
	close(fds[1]);
	return 0;
}
