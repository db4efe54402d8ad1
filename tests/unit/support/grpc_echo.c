/* SPDX-License-Identifier: Apache-2.0 */

#include "grpc_echo.h"

#include "net/grpc/call.h"

int grpc_echo(struct net_call *call, void *arg, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc;

	(void)arg;
	while ((rc = net_call_recv(call, &data, &n, err)) == 1) {
		rc = net_call_send(call, data, n, err);
		if (rc != 0)
			return rc;
	}
	return rc;
}
