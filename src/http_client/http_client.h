/* SPDX-License-Identifier: Apache-2.0 */

/* libcurl, set up in one place for every HTTP client: the API server, S3 and REST stores, the
 * push gateway, other sidecars.
 *
 * Clients differ in what they send and in how they wait; the rules of a connection are the
 * same for all. TLS is 1.2 or later and verified. A CA that is given replaces the system's
 * list instead of extending it. Sockets are not inherited by child processes, redirects are
 * not followed, and no signal is used.
 */
#ifndef CAIRN_HTTP_CLIENT_H
#define CAIRN_HTTP_CLIENT_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/* All strings are borrowed while the handle is in use; NULL and 0 mean libcurl's default
 * unless stated otherwise. */
struct http_client_settings {
	bool plain;         /* allow http:// beside https:// */
	bool http1;         /* HTTP/1.1 only; otherwise HTTP/2 where TLS negotiates it */
	bool insecure;      /* do not verify the server's certificate */
	const char *proxy;  /* a URL, HTTP_CLIENT_NO_PROXY, or NULL: from the environment */
	const char *ca_pem; /* trusted instead of the system's CAs; at most one of both */
	const char *ca_file;
	const char *cert_pem; /* shown to the server, as text or as files */
	const char *key_pem;
	const char *cert_file;
	const char *key_file;
	uint64_t connect_ms;
	uint64_t timeout_ms;  /* of the whole exchange */
	unsigned dead_peer_s; /* unacknowledged packets for this time end the connection */
	unsigned keepalive_s; /* an idle peer is probed after this time; 0: never */
	unsigned probe_s;     /* interval of these probes; 0: the system's */
};

#define HTTP_CLIENT_NO_PROXY ""

/* Initializes libcurl. Idempotent; from any thread. */
void http_client_init(void);

/* Applies the settings to a fresh or reset handle. `settings` must live as long as the handle
 * is in use. False when memory is short. */
bool http_client_apply(CURL *easy, const struct http_client_settings *settings);

/* Appends the header field "Name: value". False when memory is short. */
bool http_client_add_field(struct curl_slist **fields, const char *field);

/* Wipes the fields, which may hold secrets, and frees them. Accepts NULL. */
void http_client_fields_free(struct curl_slist *fields);
CAIRN_DEFINE_CLEANUP(struct curl_slist, http_client_fields_free);

#endif
