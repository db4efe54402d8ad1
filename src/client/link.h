/* SPDX-License-Identifier: Apache-2.0 */

/* Connections to SnapshotMetadata services, one a service, shared by all
 * listings of a client and kept for the next one.
 *
 * A service is its address, the authorities that its certificate must come from
 * and the name in it; when any of these changes (a SnapshotMetadataService
 * object was updated), the next stream gets a new connection and the old one
 * lives as long as it has streams.
 */
#ifndef CAIRN_CLIENT_LINK_H
#define CAIRN_CLIENT_LINK_H

#include <pthread.h>
#include <stddef.h>

struct cairn_err;
struct net_channel;
struct net_tls;

/* Services of one client with nobody using them: enough for the drivers of a
 * cluster, and a bound where objects change without end. */
#define CLIENT_LINKS_IDLE_MAX 8

struct client_place {
	const char *address;
	const char *ca_pem;  /* or */
	const char *ca_file; /* NULL: the system's authorities */
	const char *server_name;
};

struct client_link {
	struct client_link *next;
	char *address, *ca_pem, *ca_file, *server_name;
	struct net_tls *tls; /* NULL for a unix socket */
	struct net_channel *channel;
	size_t users;
};

struct client_links {
	pthread_mutex_t lock;
	struct client_link *first; /* the one used last */
};

void client_links_init(struct client_links *links);

/* When nobody uses any. */
void client_links_done(struct client_links *links);

/* The connection to a place, made when first used; `ca_file` is read again for
 * what connects later. Give it back with client_link_put(). From any thread.
 *
 * CAIRN_INVALID    the address is none, or the authorities are no certificates
 * CAIRN_NOT_FOUND  `ca_file` is not there
 */
int client_link_get(struct client_links *links, const struct client_place *place,
		    struct client_link **ret, struct cairn_err *err);

/* Accepts NULL. */
void client_link_put(struct client_links *links, struct client_link *link);

#endif
