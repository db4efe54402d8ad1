/* SPDX-License-Identifier: Apache-2.0 */

/* The cairn.test service on a gRPC server of ours; cairn_test.proto says what
 * each call does. */
#ifndef CAIRN_TESTS_INTEROP_TEST_SERVICE_H
#define CAIRN_TESTS_INTEROP_TEST_SERVICE_H

struct cairn_err;
struct net_server;

/* Adds the methods and reflection. Before the start. */
int test_service_add(struct net_server *server, struct cairn_err *err);

#endif
