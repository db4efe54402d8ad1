/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/caller.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "net/address.h"
#include "net/http/http_server.h"

struct kube_digest kube_origin_of(const char *address)
{
	struct net_address at;
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr_in *v4 = (const void *)&at.addr;
	const struct sockaddr_in6 *v6 = (const void *)&at.addr;

	if (net_address_parse(address, &at, NULL) == 0) {
		net_address_to_origin(&at);
		if (at.addr.ss_family == AF_INET)
			inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		else
			inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
	}
	return kube_digest_of("address", host, NULL);
}

static int check_waiting(const void *arg)
{
	return net_http_check((struct net_http *)(uintptr_t)arg);
}

void kube_caller_init(struct kube_caller *caller, struct net_http *http, uint64_t ms)
{
	caller->origin = kube_origin_of(net_http_peer(http));
	caller->wait = (struct kube_wait){
		.deadline_ns = cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS,
		.check = check_waiting,
		.arg = http,
		.origin = &caller->origin,
	};
}
