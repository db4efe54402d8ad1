/* SPDX-License-Identifier: Apache-2.0 */

#ifndef CAIRN_TESTS_UNIT_GRPC_ECHO_H
#define CAIRN_TESTS_UNIT_GRPC_ECHO_H

struct cairn_err;
struct net_call;

/* A handler that answers each message with itself. */
int grpc_echo(struct net_call *call, void *arg, struct cairn_err *err);

#endif
