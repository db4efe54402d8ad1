/* SPDX-License-Identifier: Apache-2.0 */

/* A whole client connection: the input is what a server sends after its
 * SETTINGS, once a call has come in. Whatever it is, the call must end. */

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "net/grpc/grpc_client.h"
#include "net/loop.h"

#define CALL_MS 50 /* for calls that are sent again and then find nobody */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct net_loop *loop;
static int listener;
static char dir[] = "/tmp/cairn-fuzz-XXXXXX", path[64], target[80];

static void clean_up(void)
{
	unlink(path);
	rmdir(dir);
}

static void set_up(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	if (!mkdtemp(dir) || net_loop_new("fuzz", &loop, NULL) != 0)
		abort();
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(target, sizeof(target), "unix:%s", path);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listener, 100) < 0)
		abort();
	atexit(clean_up);
}

/* Reads until the request's HEADERS are there. */
static bool is_asked(int fd)
{
	char seen[8192];
	size_t n = 0, at = 24;

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t got = poll(&wait, 1, CALL_MS * 4) == 1
				      ? read(fd, seen + n, sizeof(seen) - n)
				      : -1;

		if (got <= 0) /* also when the call expired before it was sent */
			return false;
		n += (size_t)got;
		for (; at + 9 <= n;
		     at += 9 + ((size_t)(uint8_t)seen[at + 1] << 8 | (uint8_t)seen[at + 2])) {
			if (seen[at + 3] == 1)
				return true;
		}
	}
}

/* Answers the call and hangs up. Connections that an earlier call left in the
 * backlog are passed over. */
static void answer(const uint8_t *data, size_t size)
{
	static const char settings[] = "\0\0\0\4\0\0\0\0\0";
	struct pollfd wait = {.fd = listener, .events = POLLIN};
	bool asked = false;

	while (!asked) {
		int fd = poll(&wait, 1, CALL_MS * 4) == 1 ? accept(listener, NULL, NULL) : -1;

		if (fd < 0) /* the call expired before it was connected */
			return;
		(void)!send(fd, settings, sizeof(settings) - 1, MSG_NOSIGNAL);
		asked = is_asked(fd);
		if (asked)
			(void)!send(fd, data, size, MSG_NOSIGNAL);
		close(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct net_channel_options options = {.target = target, .message_max = 65536};
	struct net_rpc_options call = {.path = "/t.T/X", .timeout_ms = CALL_MS};
	struct net_channel *channel = NULL;
	struct net_rpc *rpc = NULL;
	const uint8_t *message;
	size_t n;

	if (!loop)
		set_up();
	if (size > 60000)
		return 0;
	options.loop = loop;
	if (net_channel_new(&options, &channel, NULL) != 0 ||
	    net_rpc_start(channel, &call, &rpc, NULL) != 0)
		abort();
	if (net_rpc_send(rpc, "ask", 3, true, NULL) == 0) {
		answer(data, size);
		while (net_rpc_recv(rpc, &message, &n, NULL) == 1)
			;
	}
	net_rpc_free(rpc);
	net_channel_free(channel);
	return 0;
}
