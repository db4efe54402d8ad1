/* SPDX-License-Identifier: Apache-2.0 */

#include "net/accept_queues.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "net/accept_floods.h"
#include "net/address.h"

#define BACKLOG SOMAXCONN /* a dropped SYN costs an honest peer a second */

static int bind_queue(const struct net_address *address, bool shared, int *ret_fd)
{
	cairn_auto_fd int fd =
		socket(address->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->addr.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&address->addr, address->len) != 0)
		return -errno;
	/* The first socket is bound alone, so that two processes cannot have the same port. */
	if (!shared)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

/* Opens another queue at the address of the first. */
static bool open_another(const struct net_address *bound, int *ret_fd)
{
	cairn_auto_fd int fd = -1;

	if (bind_queue(bound, true, &fd) != 0 || listen(fd, BACKLOG) != 0)
		return false;
	*ret_fd = cairn_take_fd(&fd);
	return true;
}

int net_accept_queues_open(const struct net_address *address, const char *text,
			   int ret_fds[NET_ACCEPT_QUEUES], struct net_accept_floods **ret_floods,
			   uint16_t *ret_port, struct cairn_err *err)
{
	cairn_cleanup(net_accept_floods_freep) struct net_accept_floods *floods = NULL;
	struct net_address bound = {.len = sizeof(bound.addr)};
	cairn_auto_fd int first = -1;
	int n = 1, rc = net_accept_floods_new(&floods, err);

	if (rc != 0)
		return rc;
	rc = bind_queue(address, false, &first);
	if (rc != 0)
		return cairn_err_sys(err, -rc, "listen on %s", text);
	if (listen(first, BACKLOG) != 0 ||
	    getsockname(first, (struct sockaddr *)&bound.addr, &bound.len) != 0)
		return cairn_err_sys(err, errno, "listen on %s", text);
	while (n < (int)NET_ACCEPT_QUEUES && open_another(&bound, &ret_fds[n]))
		n++;
	if (n == (int)NET_ACCEPT_QUEUES)
		net_accept_floods_begin(floods, first);
	/* The port is at the same place in both families. */
	if (ret_port)
		*ret_port =
			ntohs(((const struct sockaddr_in *)(const void *)&bound.addr)->sin_port);
	ret_fds[0] = cairn_take_fd(&first);
	*ret_floods = cairn_take(floods);
	return n;
}

void net_accept_refuse(int fd)
{
	const struct linger reset = {.l_onoff = 1};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}
