/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "sidecar_driver.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "csi_answers.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "snapshotmetadata.pb-c.h"
#include "tls_files.h"

/* --- the driver --- */

static int plugin_info(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct sidecar_stage *stage = arg;

	return csi_answer_name(call, stage->driver_name, err);
}

static int capabilities(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct sidecar_stage *stage = arg;

	return csi_answer_capability(
		call,
		stage->incapable
			? CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE
			: CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__SNAPSHOT_METADATA_SERVICE,
		err);
}

static int probe(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct sidecar_stage *stage = arg;
	Csi__V1__ProbeResponse response;
	Google__Protobuf__BoolValue ready;

	csi__v1__probe_response__init(&response);
	google__protobuf__bool_value__init(&ready);
	response.ready = &ready;
	ready.value = !stage->starting;
	return csi_answer(call, &response.base, err);
}

static int stream(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct sidecar_stage *stage = arg;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc == CAIRN_CANCELLED)
		return rc; /* the driver is stopped before the request was read */
	assert_int_equal(rc, 1);
	stage->running++;
	rc = stage->script(stage, call, data, n, err);
	stage->running--;
	return rc;
}

int stage_send(struct sidecar_stage *stage, struct net_call *call, uint64_t first, uint32_t n,
	       struct cairn_err *err)
{
	size_t room = PROTO_BLOCK_ROOM(n > 0 ? n : 1); /* the writer's least */
	struct proto_block_writer w;
	uint8_t *at;
	int rc = net_call_reserve(call, room, &at, err);

	if (rc)
		return rc;
	proto_block_begin(&w, at, room, PROTO_BLOCK_VARIABLE, STAGE_CAPACITY);
	for (uint32_t i = 0; i < n; i++)
		proto_block_add(&w, (first + i) * 8192, 4096);
	net_call_commit(call, proto_block_len(&w), false);
	stage->sent++;
	return 0;
}

void stage_driver_start(struct sidecar_stage *stage)
{
	const struct net_method methods[] = {
		{.path = "/csi.v1.Identity/GetPluginInfo", .handler = plugin_info, .arg = stage},
		{.path = "/csi.v1.Identity/GetPluginCapabilities",
		 .handler = capabilities,
		 .arg = stage},
		{.path = "/csi.v1.Identity/Probe", .handler = probe, .arg = stage},
		{.path = "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
		 .kind = NET_SERVER_STREAM,
		 .handler = stream,
		 .arg = stage},
		{.path = "/csi.v1.SnapshotMetadata/GetMetadataDelta",
		 .kind = NET_SERVER_STREAM,
		 .handler = stream,
		 .arg = stage},
	};
	struct net_server_options options = {.name = "driver"};
	struct cairn_err err = {0};

	assert_ok(net_server_new(&options, &stage->driver, &err), &err);
	assert_ok(net_server_add(stage->driver, methods, ARRAY_LEN(methods), &err), &err);
	assert_ok(net_server_listen_unix(stage->driver, stage->socket, 0600, &err), &err);
	assert_ok(net_server_start(stage->driver, &err), &err);
}

void stage_driver_stop(struct sidecar_stage *stage)
{
	net_server_free(stage->driver);
	stage->driver = NULL;
}

/* --- the sidecar --- */

static void make_certificate(struct sidecar_stage *s)
{
	const long day = 86400;
	struct tls_pair ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "ca", .not_before = -day, .not_after = day});
	struct tls_pair leaf = tls_pair_make(&(struct tls_pair_spec){.name = "sidecar",
								     .alt = "IP:127.0.0.1",
								     .issuer = &ca,
								     .not_before = -day,
								     .not_after = day});

	tls_cert_write(s->dir, "ca.pem", &ca);
	tls_cert_write(s->dir, "cert.pem", &leaf);
	tls_key_write(s->dir, "key.pem", &leaf);
	tls_pair_done(&ca);
	tls_pair_done(&leaf);
	snprintf(s->cert, sizeof(s->cert), "%s/cert.pem", s->dir);
	snprintf(s->key, sizeof(s->key), "%s/key.pem", s->dir);
	snprintf(s->authority, sizeof(s->authority), "%s/ca.pem", s->dir);
	snprintf(s->socket, sizeof(s->socket), "%s/csi.sock", s->dir);
}

static struct sidecar_options fill(struct sidecar_stage *s, const struct sidecar_options *given)
{
	struct sidecar_options o = *given;

	o.kube = world_table(&s->world);
	o.listen = "127.0.0.1:0";
	o.tls_cert = s->cert;
	o.tls_key = s->key;
	o.streams = o.streams ? o.streams : 64;
	o.streams_each = o.streams_each ? o.streams_each : o.streams;
	o.waiting = o.waiting ? o.waiting : 64;
	o.waiting_each = o.waiting_each ? o.waiting_each : o.waiting;
	o.wait_ms = o.wait_ms ? o.wait_ms : 60000;
	o.csi_address = s->socket;
	o.csi_timeout_ms = 60000;
	o.message_max = o.message_max ? o.message_max : 16U << 20;
	o.probe_ms = 50;
	o.http_listen = o.http_listen ? o.http_listen : "127.0.0.1:0";
	o.metrics_path = "/metrics";
	return o;
}

void stage_prepare(struct sidecar_stage *s)
{
	memset(s, 0, sizeof(*s));
	scratch_template(s->dir, "sidecar");
	assert_non_null(mkdtemp(s->dir));
	s->driver_name = WORLD_DRIVER;
	world_init(&s->world);
	world_token(&s->world, "good", "aud", "ann");
	world_allow(&s->world, "ann", "ns", "*");
	world_token(&s->world, "bobs", "aud", "bob");
	world_allow(&s->world, "bob", "ns", "*");
	world_snapshot(&s->world, "ns", "snap");
	make_certificate(s);
}

void stage_start(struct sidecar_stage *s, const struct sidecar_options *options)
{
	struct net_channel_options channel = {.stream_window = 65536,
					      .recv_bytes = 65536,
					      .connection_window = 1U << 20,
					      .message_max = 64U << 20};
	struct cairn_err err = {0};
	struct sidecar_options whole = fill(s, options);

	assert_ok(sidecar_new(&whole, &s->sidecar, &err), &err);
	assert_ok(net_tls_client_new(&(struct net_tls_options){.ca_file = s->authority, .h2 = true},
				     &s->client_tls, &err),
		  &err);
	snprintf(s->target, sizeof(s->target), "127.0.0.1:%u", sidecar_port(s->sidecar));
	channel.target = s->target;
	channel.tls = s->client_tls;
	assert_ok(net_channel_new(&channel, &s->channel, &err), &err);
}

void stage_stop(struct sidecar_stage *s)
{
	static const char *const files[] = {"ca.pem", "cert.pem", "key.pem", "csi.sock"};
	char path[128];

	s->release = true;
	net_channel_free(s->channel);
	sidecar_free(s->sidecar);
	if (s->driver)
		stage_driver_stop(s);
	net_tls_free(s->client_tls);
	world_done(&s->world);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, files[i]);
		unlink(path);
	}
	rmdir(s->dir);
}

void stage_wait_ready(struct sidecar_stage *s, bool ready)
{
	for (int i = 0; i < 6000; i++) {
		char *body = NULL;
		int status = stage_http(s, "/health", &body);

		free(body);
		if ((status == 200) == ready)
			return;
		cairn_sleep_ms(10);
	}
	fail_msg("the sidecar does not become %s", ready ? "ready" : "not ready");
}

/* --- calls --- */

struct net_rpc *stage_call(struct sidecar_stage *s, const char *token, const char *base,
			   const char *snapshot, uint64_t timeout_ms)
{
	struct net_rpc_options options = {
		.path = base ? "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta"
			     : "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated",
		.timeout_ms = timeout_ms};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1U << 20);
	Snapshotmetadata__GetMetadataAllocatedRequest a;
	Snapshotmetadata__GetMetadataDeltaRequest d;
	struct net_rpc *rpc = NULL;
	struct cairn_err err = {0};

	snapshotmetadata__get_metadata_allocated_request__init(&a);
	snapshotmetadata__get_metadata_delta_request__init(&d);
	a.security_token = d.security_token = (char *)(uintptr_t)token;
	a.namespace_ = d.namespace_ = (char *)(uintptr_t) "ns";
	a.snapshot_name = d.target_snapshot_name = (char *)(uintptr_t)snapshot;
	d.base_snapshot_id = (char *)(uintptr_t)base;
	proto_pack(base ? &d.base : &a.base, &buf);
	assert_ok(net_rpc_start(s->channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, buf.data, buf.len, true, &err), &err);
	return rpc;
}

int stage_finish(struct net_rpc *rpc, unsigned *ret_messages, struct cairn_err *err)
{
	const uint8_t *data;
	unsigned messages = 0;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
		messages++;
	net_rpc_free(rpc);
	if (ret_messages)
		*ret_messages = messages;
	return rc;
}

int stage_http(struct sidecar_stage *s, const char *path, char **ret_body)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(sidecar_http_port(s->sidecar)),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(64U << 20);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[256];
	char *text, *body;
	int status;
	ssize_t n;

	*ret_body = NULL;
	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		close(fd);
		return 0;
	}
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	while ((n = read(fd, cairn_buf_reserve(&buf, 65536), 65536)) > 0)
		buf.len += (size_t)n;
	close(fd);
	text = cairn_buf_take_string(&buf);
	assert_non_null(text);
	assert_int_equal(strncmp(text, "HTTP/1.1 ", 9), 0);
	status = (text[9] - '0') * 100 + (text[10] - '0') * 10 + (text[11] - '0');
	body = strstr(text, "\r\n\r\n");
	assert_non_null(body);
	*ret_body = strdup(body + 4);
	free(text);
	return status;
}

int stage_until_released(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			 size_t n, struct cairn_err *err)
{
	int rc = stage_send(s, call, 0, 1, err);

	(void)request;
	(void)n;
	while (rc == 0 && !s->release)
		rc = net_call_sleep(call, 5, err);
	return rc;
}

uint64_t stage_offset_of(const uint8_t *request, size_t n)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	struct cairn_err err = {0};

	assert_ok(proto_unpack(&csi__v1__get_metadata_allocated_request__descriptor, request, n,
			       &message, &err),
		  &err);
	return (uint64_t)((const Csi__V1__GetMetadataAllocatedRequest *)(const void *)message)
		->starting_offset;
}
