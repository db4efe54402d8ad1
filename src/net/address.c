/* SPDX-License-Identifier: Apache-2.0 */

#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/num.h"

#define NETWORK_BYTES 8 /* prefix of an IPv6 address: one host usually owns a /64 */

static bool parse_host(const char *host, size_t n, uint16_t port, struct net_address *ret)
{
	struct sockaddr_in *v4 = (void *)&ret->addr;
	struct sockaddr_in6 *v6 = (void *)&ret->addr;
	bool bracketed = n >= 2 && host[0] == '[' && host[n - 1] == ']';
	char text[INET6_ADDRSTRLEN];

	if (bracketed) {
		host++;
		n -= 2;
	}
	if (n >= sizeof(text))
		return false;
	memcpy(text, host, n);
	text[n] = '\0';
	*ret = (struct net_address){0};
	if (n == 0 || bracketed) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		v6->sin6_addr = in6addr_any;
		ret->len = sizeof(*v6);
		return n == 0 || inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
	}
	v4->sin_family = AF_INET;
	v4->sin_port = htons(port);
	ret->len = sizeof(*v4);
	return inet_pton(AF_INET, text, &v4->sin_addr) == 1;
}

int net_address_parse(const char *text, struct net_address *ret, struct cairn_err *err)
{
	const char *colon = strrchr(text, ':');
	uint64_t port;

	if (!colon || cairn_parse_u64(colon + 1, &port, NULL) != 0 || port > UINT16_MAX ||
	    !parse_host(text, (size_t)(colon - text), (uint16_t)port, ret))
		return cairn_err_set(
			err, CAIRN_INVALID,
			"'%s' is not an address such as 127.0.0.1:50051 or [::1]:50051", text);
	return 0;
}

void net_address_to_origin(struct net_address *address)
{
	struct sockaddr_in *v4 = (void *)&address->addr;
	struct sockaddr_in6 *v6 = (void *)&address->addr;
	struct in6_addr long_form = v6->sin6_addr;

	v4->sin_port = 0; /* at the same place in both families */
	if (address->addr.ss_family != AF_INET6)
		return;
	if (IN6_IS_ADDR_V4MAPPED(&long_form)) {
		*address = (struct net_address){.addr.ss_family = AF_INET, .len = sizeof(*v4)};
		memcpy(&v4->sin_addr, long_form.s6_addr + 12, sizeof(v4->sin_addr));
		return;
	}
	memset(long_form.s6_addr + NETWORK_BYTES, 0, sizeof(long_form) - NETWORK_BYTES);
	*address = (struct net_address){.addr.ss_family = AF_INET6, .len = sizeof(*v6)};
	v6->sin6_addr = long_form;
}

int net_address_unix(const char *path, struct net_address *ret, struct cairn_err *err)
{
	struct sockaddr_un *un = (void *)&ret->addr;
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(un->sun_path))
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is not a socket path, which has 1 to %zu bytes", path,
				     sizeof(un->sun_path) - 1);
	*ret = (struct net_address){0};
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, n + 1);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	return 0;
}

bool net_address_is_loopback(const struct net_address *address)
{
	const struct sockaddr_in *v4 = (const void *)&address->addr;
	const struct sockaddr_in6 *v6 = (const void *)&address->addr;

	if (address->addr.ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	if (address->addr.ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	return address->addr.ss_family == AF_UNIX;
}
