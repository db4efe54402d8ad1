/* SPDX-License-Identifier: Apache-2.0 */

#include "client/client_link.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "client/cursor.h"
#include "net/grpc/grpc_client.h"
#include "net/tls/tls_settings.h"

/* Pauses between connection attempts. They are short, because listings have their own
 * pauses. */
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   2000

/* Limit of unread data of one stream: bounds the memory of a listing, however slow its
 * caller is. */
#define RECV_BYTES (512U << 10)

void client_links_init(struct client_links *links)
{
	pthread_mutex_init(&links->lock, NULL);
	links->first = NULL;
}

static void link_free(struct client_link *link)
{
	net_channel_free(link->channel);
	net_tls_free(link->tls);
	free(link->address);
	free(link->ca_pem);
	free(link->ca_file);
	free(link->server_name);
	free(link);
}
CAIRN_DEFINE_CLEANUP(struct client_link, link_free);

void client_links_done(struct client_links *links)
{
	while (links->first) {
		struct client_link *link = links->first;

		links->first = link->next;
		link_free(link);
	}
	pthread_mutex_destroy(&links->lock);
}

static bool client_link_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool leads_to(const struct client_link *link, const struct client_place *place)
{
	return client_link_same(link->address, place->address) &&
	       client_link_same(link->ca_pem, place->ca_pem) &&
	       client_link_same(link->ca_file, place->ca_file) &&
	       client_link_same(link->server_name, place->server_name);
}

static int client_link_copy(const char *from, char **ret, struct cairn_err *err)
{
	*ret = from ? cairn_strdup(from) : NULL;
	return from && !*ret ? cairn_err_nomem(err, "connection") : 0;
}

static int make_channel(struct client_link *link, struct cairn_err *err)
{
	struct net_tls_options tls_options = {
		.ca_pem = link->ca_pem, .ca_file = link->ca_file, .h2 = true};
	struct net_channel_options options = {
		.target = link->address,
		.server_name = link->server_name,
		.message_max = CLIENT_MESSAGE_MAX,
		.stream_window = RECV_BYTES,
		.recv_bytes = RECV_BYTES,
		.backoff_first_ms = BACKOFF_FIRST_MS,
		.backoff_max_ms = BACKOFF_MAX_MS,
	};
	int rc = 0;

	if (!link->address)
		return cairn_err_set(err, CAIRN_INVALID, "the service has no address");
	if (strncmp(link->address, "unix:", 5) != 0)
		rc = net_tls_client_new(&tls_options, &link->tls, err);
	options.tls = link->tls;
	return rc ? rc : net_channel_new(&options, &link->channel, err);
}

static int link_new(const struct client_place *place, struct client_link **ret,
		    struct cairn_err *err)
{
	cairn_cleanup(link_freep) struct client_link *link = cairn_calloc(1, sizeof(*link));
	int rc;

	if (!link)
		return cairn_err_nomem(err, "connection");
	rc = client_link_copy(place->address, &link->address, err);
	if (!rc)
		rc = client_link_copy(place->ca_pem, &link->ca_pem, err);
	if (!rc)
		rc = client_link_copy(place->ca_file, &link->ca_file, err);
	if (!rc)
		rc = client_link_copy(place->server_name, &link->server_name, err);
	if (!rc)
		rc = make_channel(link, err);
	if (rc)
		return rc;
	*ret = cairn_take(link);
	return 0;
}

int client_link_get(struct client_links *links, const struct client_place *place,
		    struct client_link **ret, struct cairn_err *err)
{
	struct client_link *link = NULL;
	int rc;

	cairn_scoped_lock(&links->lock);
	for (struct client_link **at = &links->first; *at; at = &(*at)->next) {
		if (leads_to(*at, place)) {
			link = *at;
			*at = link->next;
			break;
		}
	}
	rc = link ? 0 : link_new(place, &link, err);
	if (rc)
		return rc;
	if (link->tls && link->ca_file)
		(void)net_tls_reload(link->tls, NULL); /* keeps the old one on failure */
	link->next = links->first;
	links->first = link;
	link->users++;
	*ret = link;
	return 0;
}

/* Removes idle connections beyond the limit from the list, the least recently used first.
 * They are freed without the lock, because that waits for their thread. */
static struct client_link *client_link_surplus(struct client_links *links)
{
	struct client_link *out = NULL;
	size_t idle = 0;

	for (struct client_link **at = &links->first; *at;) {
		struct client_link *link = *at;

		if (link->users == 0 && ++idle > CLIENT_LINKS_IDLE_MAX) {
			*at = link->next;
			link->next = out;
			out = link;
		} else {
			at = &link->next;
		}
	}
	return out;
}

void client_link_put(struct client_links *links, struct client_link *link)
{
	struct client_link *out;

	if (!link)
		return;
	pthread_mutex_lock(&links->lock);
	link->users--;
	out = client_link_surplus(links);
	pthread_mutex_unlock(&links->lock);
	while (out) {
		struct client_link *next = out->next;

		link_free(out);
		out = next;
	}
}
