/* SPDX-License-Identifier: Apache-2.0 */

#include "listen_on.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "net/grpc/grpc_server.h"

int listen_on(struct net_server *server, const char *at, struct net_tls *tls, struct cairn_err *err)
{
	uint16_t port;
	int rc;

	if (strncmp(at, "unix:", 5) == 0) {
		rc = net_server_listen_unix(server, at + 5, 0600, err);
		if (rc == 0)
			printf("ready %s\n", at);
		return rc;
	}
	if (strncmp(at, "plain:", 6) == 0) {
		at += 6;
		tls = NULL;
	}
	rc = net_server_listen_tcp(server, at, tls, &port, err);
	if (rc == 0)
		printf("ready %.*s:%" PRIu16 "\n", (int)(strrchr(at, ':') - at), at, port);
	return rc;
}
