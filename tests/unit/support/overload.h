/* SPDX-License-Identifier: Apache-2.0 */

/* What tests of overload share: peers at several addresses, and this process's memory. */
#ifndef CAIRN_TESTS_UNIT_OVERLOAD_H
#define CAIRN_TESTS_UNIT_OVERLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct net_http;

struct cairn_err;
struct net_http;

/* Connects to 127.0.0.1 from 127.0.0.`host`; reads give up after a while. */
int overload_dial(unsigned host, uint16_t port);

/* Does a TLS handshake on `fd` and asks for up to `n` updates of the keys; true when
 * the server ended the connection before. */
bool overload_key_updates(int fd, const char *protocol, unsigned n);

/* Does a TLS handshake on `fd`, of which each send(2) is of at most `piece` bytes and
 * arrives alone. */
void overload_handshake_in_pieces(int fd, const char *protocol, size_t piece);

/* Fails when this process has grown by more than `more` bytes since it had `before`. A
 * sanitizer's own memory is not counted: with one it never fails. */
void overload_assert_memory(size_t before, size_t more);

/* Waits for a while until it has not. */
void overload_wait_memory(size_t before, size_t more);

size_t overload_resident(void);

/* Lets this process open `n` descriptors more; how many it may. */
size_t overload_descriptors(size_t n);

/* A handler of HTTP requests that writes until nobody wants it; its result is then in
 * `result`, an atomic_int, unless that is NULL. */
int overload_flood(struct net_http *http, void *result, struct cairn_err *err);

/* Calls of malloc_trim(), and the priority of the thread of the last one. */
extern _Atomic int overload_trims, overload_trim_priority;

#endif
