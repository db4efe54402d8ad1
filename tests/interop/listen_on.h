/* SPDX-License-Identifier: Apache-2.0 */

#ifndef CAIRN_TESTS_LISTEN_ON_H
#define CAIRN_TESTS_LISTEN_ON_H

struct cairn_err;
struct net_server;
struct net_tls;

/* Listens at "unix:PATH", "HOST:PORT" with `tls`, or "plain:HOST:PORT", and prints "ready" with
 * the address. */
int listen_on(struct net_server *server, const char *at, struct net_tls *tls,
	      struct cairn_err *err);

#endif
