/* SPDX-License-Identifier: Apache-2.0 */

/* Connections to SnapshotMetadata services, one per service, shared by all listings of a
 * client and kept for later ones.
 *
 * A service is identified by its address, the CA of its certificate and the name in it. If
 * any of these changes (a SnapshotMetadataService object was updated), the next stream
 * gets a new connection; the old one is closed with its last stream.
 */
#ifndef CAIRN_CLIENT_LINK_H
#define CAIRN_CLIENT_LINK_H

#include <pthread.h>
#include <stddef.h>

struct cairn_err;
struct net_channel;
struct net_tls;

/* Limit of idle connections of one client: enough for the drivers of a cluster, and a
 * bound if objects change endlessly. */
#define CLIENT_LINKS_IDLE_MAX 8

struct client_place {
	const char *address;
	const char *ca_pem;  /* or */
	const char *ca_file; /* NULL: the system's trust store */
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
	struct client_link *first; /* most recently used */
};

void client_links_init(struct client_links *links);

/* No connection may be in use. */
void client_links_done(struct client_links *links);

/* Returns the connection to a place, created on first use; `ca_file` is read again for
 * later connections. Release it with client_link_put(). From any thread.
 *
 * CAIRN_INVALID    invalid address, or the CA contains no certificates
 * CAIRN_NOT_FOUND  `ca_file` does not exist
 */
int client_link_get(struct client_links *links, const struct client_place *place,
		    struct client_link **ret, struct cairn_err *err);

/* Accepts NULL. */
void client_link_put(struct client_links *links, struct client_link *link);

#endif
