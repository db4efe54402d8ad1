/* SPDX-License-Identifier: Apache-2.0 */

/* The sidecar's gRPC server: its methods, limits and listeners. */

#include <unistd.h>

#include "base/err.h"
#include "net/grpc/grpc_server.h"
#include "proto/descriptors.h"
#include "sidecar/route.h"
#include "sidecar/sidecar_impl.h"
#include "sidecar/sidecar_request.h"

/* I/O threads: each relays some 60 million tuples a second. */
#define LOOPS_DEFAULT_MAX 4

static unsigned count_loops(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : n > LOOPS_DEFAULT_MAX ? LOOPS_DEFAULT_MAX : (unsigned)n;
}

static int server_add_pair(struct sidecar *s, const char *allocated_path, net_handler allocated,
			   const char *delta_path, net_handler delta, struct cairn_err *err)
{
	const struct net_method methods[] = {
		{.path = allocated_path, .kind = NET_SERVER_STREAM, .handler = allocated, .arg = s},
		{.path = delta_path, .kind = NET_SERVER_STREAM, .handler = delta, .arg = s},
	};

	return net_server_add(s->server, methods, 2, err);
}

int sidecar_make_server(struct sidecar *s, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	/* A call that waits for an answer or a place occupies a thread. */
	unsigned calls = o->streams + o->waiting + SIDECAR_QUESTIONS + SIDECAR_QUESTIONS_WAITING +
			 (o->route.node ? o->streams + o->waiting : 0);
	struct net_server_options options = {
		.name = "sidecar",
		.io_threads = count_loops(),
		.authenticates = true,
		.limits = {.connections = calls,
			   .streams = SIDECAR_STREAMS_CONNECTION,
			   .workers = calls,
			   .message_bytes = SIDECAR_REQUEST_MAX,
			   .stream_send_bytes = SIDECAR_READ_AHEAD},
	};
	const struct proto_bytes set = proto_descriptors_cairn();
	int rc = net_server_new(&options, &s->server, err);

	if (!rc)
		rc = net_server_set_serving(s->server, "", false, err);
	if (!rc)
		rc = server_add_pair(s, "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated",
				     sidecar_allocated,
				     "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta",
				     sidecar_delta, err);
	if (!rc && o->sessions)
		rc = server_add_pair(s, "/SnapshotMetadata/GetAllocated", sidecar_session_allocated,
				     "/SnapshotMetadata/GetDelta", sidecar_session_delta, err);
	if (!rc && o->route.node)
		rc = server_add_pair(s, SIDECAR_ROUTE_ALLOCATED, sidecar_routed_allocated,
				     SIDECAR_ROUTE_DELTA, sidecar_routed_delta, err);
	if (!rc && o->reflection)
		rc = net_server_add_reflection(s->server, set.data, set.len, err);
	return rc ? rc : net_server_listen_tcp(s->server, o->listen, s->tls, &s->port, err);
}

int sidecar_make_route(struct sidecar *s, struct cairn_err *err)
{
	const struct sidecar_options *o = &s->options;
	const struct sidecar_route_options options = {
		.map = o->route.map,
		.node = o->route.node,
		.listen = o->route.listen,
		.cert_file = o->route.cert_file,
		.key_file = o->route.key_file,
		.ca_file = o->route.ca_file,
		.server = s->server,
		.message_max = o->message_max,
	};

	return o->route.node ? sidecar_route_new(&options, &s->route, err) : 0;
}
