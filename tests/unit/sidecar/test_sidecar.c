/* SPDX-License-Identifier: Apache-2.0 */

/* The sidecar over real sockets, with a scripted driver and a made-up Kubernetes. */

#include "cairntest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "sidecar_driver.h"

static const struct sidecar_options usual = {.keep_ms = 60000};

/* --- scripts --- */

static int three_messages(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			  size_t n, struct cairn_err *err)
{
	int rc = 0;

	(void)request;
	(void)n;
	for (uint64_t i = 0; i < 3 && rc == 0; i++)
		rc = stage_send(s, call, i * 10, 10, err);
	return rc;
}

static int flood(struct sidecar_stage *s, struct net_call *call, const uint8_t *request, size_t n,
		 struct cairn_err *err)
{
	int rc = 0;

	(void)request;
	(void)n;
	for (uint64_t i = 0; rc == 0; i++)
		rc = stage_send(s, call, i * 1024, 1024, err);
	return rc;
}

static void start_whole(struct sidecar_stage *s, const struct sidecar_options *options,
			stage_script script)
{
	stage_prepare(s);
	s->script = script;
	stage_driver_start(s);
	stage_start(s, options);
	stage_wait_ready(s, true);
}

static int call_once(struct sidecar_stage *s, const char *token, const char *base,
		     const char *snapshot, unsigned *ret_messages, struct cairn_err *err)
{
	return stage_finish(stage_call(s, token, base, snapshot, 30000), ret_messages, err);
}

/* A stage with one call, and the message that it received last. */
struct stream {
	struct sidecar_stage stage;
	struct net_rpc *rpc;
	const uint8_t *data;
	size_t n;
};

static int stream_recv(struct stream *stream, struct cairn_err *err)
{
	return net_rpc_recv(stream->rpc, &stream->data, &stream->n, err);
}

/* Receives the first message. */
static void stream_start(struct stream *stream, stage_script script)
{
	struct cairn_err err = {0};

	start_whole(&stream->stage, &usual, script);
	stream->rpc = stage_call(&stream->stage, "good", NULL, "snap", 60000);
	if (stream_recv(stream, &err) != 1)
		fail_msg("%s", err.msg);
}

static void wait_for_running(struct sidecar_stage *s, unsigned n)
{
	for (int i = 0; i < 6000 && s->running != n; i++)
		cairn_sleep_ms(10);
	assert_int_equal(s->running, n);
}

/* --- passing on --- */

/* A message that protobuf allows and no writer makes. */
static const uint8_t odd_message[] = {
	0x08, 0x02, 0x10, 0x80, 0x80, 0x01,       /* type, capacity */
	0xf8, 0x3f, 0x07,                         /* field 1023: nobody knows it */
	0x1a, 0x03, 0x10, 0x80, 0x20,             /* offset 0, size 4096 */
	0x1a, 0x05, 0x10, 0x01, 0x08, 0x80, 0x40, /* size before offset */
};

static _Atomic size_t odd_bytes; /* how much of it is sent */

static int send_odd(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		    size_t n, struct cairn_err *err)
{
	(void)s;
	(void)request;
	(void)n;
	return net_call_send(call, odd_message, odd_bytes, err);
}

static void the_drivers_bytes_arrive_unchanged(void **state)
{
	struct stream stream;
	struct cairn_err err = {0};

	(void)state;
	odd_bytes = sizeof(odd_message);
	stream_start(&stream, send_odd);
	assert_int_equal(stream.n, sizeof(odd_message));
	assert_memory_equal(stream.data, odd_message, stream.n);
	assert_code(stream_recv(&stream, &err), 0);
	net_rpc_free(stream.rpc);
	odd_bytes = sizeof(odd_message) - 1;
	assert_code(call_once(&stream.stage, "good", NULL, "snap", NULL, &err), CAIRN_INTERNAL);
	assert_non_null(strstr(err.msg, "is malformed"));
	stage_stop(&stream.stage);
}

static struct {
	char base[64], target[64], secret[64];
	int64_t offset;
} seen;

static int remember(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		    size_t n, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetMetadataDeltaRequest *d;

	assert_ok(proto_unpack(&csi__v1__get_metadata_delta_request__descriptor, request, n,
			       &message, err),
		  err);
	d = (const void *)message;
	snprintf(seen.base, sizeof(seen.base), "%s", d->base_snapshot_id);
	snprintf(seen.target, sizeof(seen.target), "%s", d->target_snapshot_id);
	snprintf(seen.secret, sizeof(seen.secret), "%s",
		 d->n_secrets == 1 ? d->secrets[0]->value : "");
	return stage_send(s, call, 0, 1, err);
}

static void names_become_handles_and_the_secret_goes_along(void **state)
{
	struct sidecar_stage s;
	struct cairn_err err = {0};

	(void)state;
	start_whole(&s, &usual, remember);
	world_put(&s.world, "volumesnapshotclasses", NULL, "plain",
		  "{'driver': 'driver.test', 'parameters': "
		  "{'csi.storage.k8s.io/snapshotter-secret-name': 'sec', "
		  "'csi.storage.k8s.io/snapshotter-secret-namespace': 'ns'}}");
	world_put(&s.world, "secrets", "ns", "sec", "{'data': {'k': 'aHVzaA=='}}");
	assert_ok(call_once(&s, "good", "gone-long-ago", "snap", NULL, &err), &err);
	assert_string_equal(seen.base, "gone-long-ago");
	assert_string_equal(seen.target, "h-snap");
	assert_string_equal(seen.secret, "hush");
	stage_stop(&s);
}

static void each_refusal_has_its_code(void **state)
{
	static const struct {
		const char *token, *base, *snapshot;
		int code;
	} cases[] = {
		{"", NULL, "snap", CAIRN_INVALID},
		{"bad", NULL, "snap", CAIRN_UNAUTHENTICATED},
		{"eves", NULL, "snap", CAIRN_DENIED},
		{"good", NULL, "absent", CAIRN_NOT_FOUND},
		{"good", NULL, "new", CAIRN_UNAVAILABLE},
		{"good", "h-foreign", "snap", CAIRN_DENIED},
	};
	struct sidecar_stage s;

	(void)state;
	start_whole(&s, &usual, three_messages);
	world_token(&s.world, "eves", "aud", "eve");
	world_put(&s.world, "volumesnapshots", "ns", "new", "{}");
	world_snapshot(&s.world, "other", "foreign");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		int rc =
			call_once(&s, cases[i].token, cases[i].base, cases[i].snapshot, NULL, &err);

		if (rc != cases[i].code)
			fail_msg("%zu: %s (%s)", i, cairn_code_name(rc), err.msg);
	}
	assert_int_equal(s.sent, 0); /* the driver saw none of them */
	stage_stop(&s);
}

/* --- what the driver does wrong --- */

static struct {
	uint64_t offset, length; /* of the tuple in the second message */
	int type;
	uint64_t capacity;
	uint32_t n;
} wrong;

static int second_is_wrong(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			   size_t n, struct cairn_err *err)
{
	struct proto_block_writer w;
	uint8_t *at;
	int rc = stage_send(s, call, 0, 2, err); /* ends at 12288 */

	(void)request;
	(void)n;
	if (!rc)
		rc = net_call_reserve(call, PROTO_BLOCK_ROOM(wrong.n), &at, err);
	if (rc)
		return rc;
	proto_block_begin(&w, at, PROTO_BLOCK_ROOM(wrong.n), (enum proto_block_type)wrong.type,
			  wrong.capacity);
	for (uint32_t i = 0; i < wrong.n; i++)
		proto_block_add(&w, wrong.offset + i * 8192, wrong.length);
	net_call_commit(call, proto_block_len(&w), false);
	return 0;
}

static void a_driver_that_breaks_the_rules_is_stopped_before_the_caller_sees_it(void **state)
{
	static const struct {
		uint64_t offset, length;
		int type;
		uint64_t capacity;
		uint32_t n;
		const char *text; /* NULL: nothing is wrong */
	} cases[] = {
		{12288, 4096, 2, STAGE_CAPACITY, 2, NULL},
		{12287, 4096, 2, STAGE_CAPACITY, 1, "begins before the last one ends"},
		{0, 4096, 2, STAGE_CAPACITY, 1, "begins before the last one ends"},
		{16384, 0, 2, STAGE_CAPACITY, 1, "has no size"},
		{16384, 4096, 1, STAGE_CAPACITY, 1, "changes the block metadata type"},
		{16384, 4096, 2, STAGE_CAPACITY - 1, 1, "changes the volume capacity"},
		{STAGE_CAPACITY, 4096, 2, STAGE_CAPACITY, 1, "past the volume capacity"},
	};
	struct sidecar_stage s;
	char *metrics = NULL;

	(void)state;
	start_whole(&s, &usual, second_is_wrong);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		unsigned messages;
		int rc;

		wrong.offset = cases[i].offset;
		wrong.length = cases[i].length;
		wrong.type = cases[i].type;
		wrong.capacity = cases[i].capacity;
		wrong.n = cases[i].n;
		rc = call_once(&s, "good", NULL, "snap", &messages, &err);
		if (!cases[i].text) {
			assert_ok(rc, &err);
			continue;
		}
		assert_int_equal(rc, CAIRN_INTERNAL);
		assert_int_equal(messages, 1);
		assert_non_null(strstr(err.msg, "the CSI driver broke the protocol: "));
		if (!strstr(err.msg, cases[i].text))
			fail_msg("'%s' is not in '%s'", cases[i].text, err.msg);
	}
	assert_int_equal(stage_http(&s, "/metrics", &metrics), 200);
	assert_non_null(strstr(metrics, "cairn_sidecar_driver_violations_total 6\n"));
	free(metrics);
	stage_stop(&s);
}

static _Atomic int driver_code;

static int fail_after_one(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			  size_t n, struct cairn_err *err)
{
	int rc = stage_send(s, call, 0, 2, err);

	(void)request;
	(void)n;
	return rc ? rc : cairn_err_set(err, driver_code, "the driver's own words");
}

static void a_drivers_status_passes_unchanged_except_unknown(void **state)
{
	struct sidecar_stage s;

	(void)state;
	start_whole(&s, &usual, fail_after_one);
	for (int code = CAIRN_CANCELLED; code >= CAIRN_UNAUTHENTICATED; code--) {
		struct cairn_err err = {0};
		unsigned messages;
		int rc;

		driver_code = code;
		rc = call_once(&s, "good", NULL, "snap", &messages, &err);
		assert_int_equal(rc, code == CAIRN_UNKNOWN ? CAIRN_INTERNAL : code);
		assert_int_equal(messages, 1);
		assert_string_equal(err.msg, code == CAIRN_UNKNOWN
						     ? "failed to get response from CSI driver: "
						       "the driver's own words"
						     : "the driver's own words");
	}
	stage_stop(&s);
}

static int huge_message(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			size_t n, struct cairn_err *err)
{
	(void)request;
	(void)n;
	return stage_send(s, call, 0, 400000, err); /* some 5 MiB */
}

static void a_message_above_4_mib_passes_and_one_above_the_limit_does_not(void **state)
{
	struct sidecar_options small = usual;
	struct sidecar_stage s;
	struct cairn_err err = {0};
	unsigned messages;

	(void)state;
	start_whole(&s, &usual, huge_message);
	assert_ok(call_once(&s, "good", NULL, "snap", &messages, &err), &err);
	assert_int_equal(messages, 1);
	stage_stop(&s);
	small.message_max = 1U << 20;
	start_whole(&s, &small, huge_message);
	assert_code(call_once(&s, "good", NULL, "snap", &messages, &err), CAIRN_NO_SPACE);
	assert_int_equal(messages, 0);
	stage_stop(&s);
}

/* --- readiness --- */

static void health_is_served_before_the_driver_is_there(void **state)
{
	struct net_rpc_options options = {.path = "/grpc.health.v1.Health/Check",
					  .timeout_ms = 60000};
	cairn_auto_free uint8_t *answer = NULL;
	struct sidecar_stage s;
	struct cairn_err err = {0};
	char *body = NULL;
	size_t n;

	(void)state;
	stage_prepare(&s);
	stage_start(&s, &usual);
	s.script = three_messages;
	assert_int_equal(stage_http(&s, "/health", &body), 503);
	assert_string_equal(body, "not ready");
	free(body);
	assert_int_equal(stage_http(&s, "/healthz", &body), 200);
	free(body);
	assert_ok(net_rpc_unary(s.channel, &options, "", 0, &answer, &n, &err), &err);
	assert_memory_equal(answer, "\x08\x02", 2); /* NOT_SERVING */
	assert_code(call_once(&s, "good", NULL, "snap", NULL, &err), CAIRN_UNAVAILABLE);
	assert_string_equal(err.msg, "the CSI driver is not yet ready");
	assert_int_equal(stage_http(&s, "/metrics", &body), 200);
	assert_null(strstr(body, "unknown-driver"));
	free(body);
	s.starting = true;
	stage_driver_start(&s);
	cairn_sleep_ms(200);
	stage_wait_ready(&s, false);
	s.starting = false;
	stage_wait_ready(&s, true);
	assert_ok(call_once(&s, "good", NULL, "snap", NULL, &err), &err);
	assert_int_equal(stage_http(&s, "/health", &body), 200);
	assert_string_equal(body, "ok");
	free(body);
	/* The call that came too early is counted, under the driver's name. */
	assert_int_equal(stage_http(&s, "/metrics", &body), 200);
	assert_non_null(strstr(body,
			       "{driver_name=\"driver.test\",method_name=\"MetadataAllocated\","
			       "grpc_status_code=\"Unavailable\"} 1\n"));
	free(body);
	stage_stop(&s);
}

static void a_driver_that_restarts_is_found_again(void **state)
{
	struct stream stream;
	struct sidecar_stage *s = &stream.stage;
	struct cairn_err err = {0};

	(void)state;
	stream_start(&stream, stage_until_released);
	stage_driver_stop(s);
	assert_code(stream_recv(&stream, &err), CAIRN_UNAVAILABLE); /* never OK */
	net_rpc_free(stream.rpc);
	stage_wait_ready(s, false);
	assert_code(call_once(s, "good", NULL, "snap", NULL, &err), CAIRN_UNAVAILABLE);
	s->script = three_messages;
	stage_driver_start(s);
	stage_wait_ready(s, true);
	assert_ok(call_once(s, "good", NULL, "snap", NULL, &err), &err);
	stage_stop(s);
}

static void a_driver_that_can_not_or_is_another_never_becomes_ready(void **state)
{
	struct sidecar_stage s;
	char *body = NULL;

	(void)state;
	stage_prepare(&s);
	stage_start(&s, &usual);
	s.script = three_messages;
	s.incapable = true;
	stage_driver_start(&s);
	for (int i = 0; i < 6000; i++) {
		free(body);
		stage_http(&s, "/readyz", &body);
		if (strstr(body, "SNAPSHOT_METADATA_SERVICE"))
			break;
		cairn_sleep_ms(10);
	}
	assert_non_null(strstr(body, "does not offer SNAPSHOT_METADATA_SERVICE"));
	s.incapable = false;
	stage_wait_ready(&s, true);
	stage_driver_stop(&s);
	stage_wait_ready(&s, false);
	s.driver_name = "another.test";
	stage_driver_start(&s);
	for (int i = 0; i < 6000; i++) {
		free(body);
		assert_int_equal(stage_http(&s, "/readyz", &body), 503);
		if (strstr(body, "another.test"))
			break;
		cairn_sleep_ms(10);
	}
	assert_non_null(strstr(body, "the CSI driver is 'another.test', and was 'driver.test'"));
	free(body);
	stage_stop(&s);
}

/* --- limits --- */

static void streams_are_bounded_in_all_and_per_user(void **state)
{
	struct sidecar_options o = usual;
	struct net_rpc *ann[3], *bob;
	struct sidecar_stage s;
	struct cairn_err err = {0};
	char *metrics = NULL;

	(void)state;
	o.streams = 3;
	o.streams_each = 2;
	o.waiting = 1;
	start_whole(&s, &o, stage_until_released);
	for (int i = 0; i < 3; i++)
		ann[i] = stage_call(&s, "good", NULL, "snap", 60000);
	wait_for_running(&s, 2);
	bob = stage_call(&s, "bobs", NULL, "snap", 60000);
	wait_for_running(&s, 3); /* bob is not behind ann's third */
	for (int i = 0; i < 6000; i++) {
		free(metrics);
		stage_http(&s, "/metrics", &metrics);
		if (strstr(metrics, "cairn_sidecar_streams_waiting 1\n"))
			break;
		cairn_sleep_ms(10);
	}
	assert_non_null(strstr(metrics, "cairn_sidecar_streams 3\n"));
	assert_non_null(strstr(metrics, "cairn_sidecar_streams_waiting 1\n"));
	free(metrics);
	/* The line is full. */
	assert_code(call_once(&s, "good", NULL, "snap", NULL, &err), CAIRN_NO_SPACE);
	s.release = true;
	for (int i = 0; i < 3; i++)
		assert_ok(stage_finish(ann[i], NULL, &err), &err);
	assert_ok(stage_finish(bob, NULL, &err), &err);
	stage_stop(&s);
}

static void who_waited_is_checked_again(void **state)
{
	struct sidecar_options o = usual;
	struct net_rpc *first, *second;
	struct sidecar_stage s;
	struct cairn_err err = {0};

	(void)state;
	o.streams = 1;
	o.keep_ms = 1; /* rights are asked about again at once */
	start_whole(&s, &o, stage_until_released);
	first = stage_call(&s, "good", NULL, "snap", 60000);
	wait_for_running(&s, 1);
	second = stage_call(&s, "bobs", NULL, "snap", 60000);
	cairn_sleep_ms(100);
	world_forbid(&s.world, "bob", "ns", "*");
	s.release = true;
	assert_ok(stage_finish(first, NULL, &err), &err);
	assert_code(stage_finish(second, NULL, &err), CAIRN_DENIED);
	stage_stop(&s);
}

static void a_wait_has_a_limit(void **state)
{
	struct sidecar_options o = usual;
	struct net_rpc *first;
	struct sidecar_stage s;
	struct cairn_err err = {0};

	(void)state;
	o.streams = 1;
	o.wait_ms = 50;
	start_whole(&s, &o, stage_until_released);
	first = stage_call(&s, "good", NULL, "snap", 60000);
	wait_for_running(&s, 1);
	assert_code(call_once(&s, "good", NULL, "snap", NULL, &err), CAIRN_NO_SPACE);
	s.release = true;
	assert_ok(stage_finish(first, NULL, &err), &err);
	stage_stop(&s);
}

/* The API server refuses our own account: strangers meet that with every token. */
static void strangers_do_not_fill_the_log_with_our_own_failures(void **state)
{
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	FILE *file = tmpfile();
	struct sidecar_stage s;
	struct cairn_err err = {0};
	char line[8192], token[16];
	unsigned warnings = 0;

	(void)state;
	start_whole(&s, &usual, three_messages);
	assert_non_null(file);
	s.world.fail = CAIRN_INTERNAL;
	assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
	for (int i = 0; i < 50; i++) {
		snprintf(token, sizeof(token), "bad-%d", i);
		assert_code(call_once(&s, token, NULL, "snap", NULL, &err), CAIRN_INTERNAL);
	}
	stage_stop(&s);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	while (fgets(line, sizeof(line), file))
		warnings += strstr(line, "stream failed") != NULL;
	fclose(file);
	assert_in_range(warnings, 1, 10); /* one a minute, for the administrator */
}

static void a_stream_has_a_time_limit_of_any_unit(void **state)
{
	struct sidecar_options o = usual;
	struct sidecar_stage s;
	struct cairn_err err = {0};

	(void)state;
	o.stream_ms = 150;
	start_whole(&s, &o, stage_until_released);
	assert_code(call_once(&s, "good", NULL, "snap", NULL, &err), CAIRN_DEADLINE);
	wait_for_running(&s, 0); /* the driver sees the cancellation too */
	stage_stop(&s);
}

static void a_caller_that_leaves_frees_the_driver_and_its_place(void **state)
{
	struct sidecar_options o = usual;
	struct sidecar_stage s;
	struct cairn_err err = {0};
	struct net_rpc *rpc;

	(void)state;
	o.streams = 1;
	start_whole(&s, &o, flood);
	rpc = stage_call(&s, "good", NULL, "snap", 60000);
	wait_for_running(&s, 1);
	net_rpc_free(rpc);
	wait_for_running(&s, 0);
	s.script = three_messages;
	assert_ok(call_once(&s, "good", NULL, "snap", NULL, &err), &err);
	stage_stop(&s);
}

static unsigned long long buffered_bytes(struct sidecar_stage *s)
{
	unsigned long long bytes = 0;
	char *metrics = NULL;
	const char *at;

	assert_int_equal(stage_http(s, "/metrics", &metrics), 200);
	at = strstr(metrics, "\ncairn_sidecar_buffered_bytes ");
	assert_non_null(at);
	for (at = strchr(at, ' ') + 1; *at >= '0' && *at <= '9'; at++)
		bytes = bytes * 10 + (unsigned long long)(*at - '0');
	free(metrics);
	return bytes;
}

static void no_caller_is_read_ahead_of_further_than_the_limit(void **state)
{
	struct sidecar_stage s;
	struct cairn_err err = {0};
	struct net_rpc *rpc;
	unsigned long long buffered;
	unsigned before;
	size_t n;
	const uint8_t *data;

	(void)state;
	start_whole(&s, &usual, flood);
	rpc = stage_call(&s, "good", NULL, "snap", 60000);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	do { /* until all of it stands still */
		before = s.sent;
		cairn_sleep_ms(300);
		buffered = buffered_bytes(&s);
	} while (s.sent != before || buffered == 0);
	/* The named limit, the window of the driver's stream, and a message. */
	assert_true(buffered <= SIDECAR_READ_AHEAD + (64U << 10) + 2 * n);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_drain_has_a_limit(void **state)
{
	struct stream stream;
	struct cairn_err err = {0};
	char *body = NULL;

	(void)state;
	stream_start(&stream, stage_until_released);
	assert_int_equal(sidecar_drain(stream.stage.sidecar, 100), 1);
	assert_int_equal(stage_http(&stream.stage, "/health", &body), 503);
	free(body);
	assert_code(stream_recv(&stream, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(stream.rpc);
	stage_stop(&stream.stage);
}

/* --- metrics --- */

static unsigned lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void nobody_can_add_series(void **state)
{
	struct sidecar_stage s;
	char *before = NULL, *after = NULL;
	struct cairn_err err = {0};

	(void)state;
	start_whole(&s, &usual, three_messages);
	assert_ok(call_once(&s, "good", NULL, "snap", NULL, &err), &err);
	assert_code(call_once(&s, "", NULL, "x", NULL, &err), CAIRN_INVALID);
	assert_code(call_once(&s, "bad", NULL, "x", NULL, &err), CAIRN_UNAUTHENTICATED);
	stage_http(&s, "/metrics", &before);
	for (int i = 0; i < 200; i++) {
		char name[32];

		snprintf(name, sizeof(name), "random-%d", i);
		assert_code(call_once(&s, i % 2 ? "" : "bad", NULL, name, NULL, &err),
			    i % 2 ? CAIRN_INVALID : CAIRN_UNAUTHENTICATED);
	}
	stage_http(&s, "/metrics", &after);
	assert_int_equal(lines(before), lines(after));
	assert_null(strstr(after, "random"));
	assert_null(strstr(after, "snap\""));
	free(before);
	free(after);
	stage_stop(&s);
}

static void both_methods_are_counted_under_their_own_names(void **state)
{
	static const char *const wanted[] = {
		"snapshot_metadata_controller_operations_seconds_count{driver_name=\"driver.test\","
		"method_name=\"MetadataAllocated\",grpc_status_code=\"OK\"} 1\n",
		"snapshot_metadata_controller_operations_seconds_count{driver_name=\"driver.test\","
		"method_name=\"MetadataDelta\",grpc_status_code=\"OK\"} 2\n",
		"snapshot_metadata_controller_operations_seconds_count{driver_name=\"driver.test\","
		"method_name=\"MetadataDelta\",grpc_status_code=\"NotFound\"} 1\n",
		"snapshot_metadata_controller_operation_total_seconds_count{operation_name="
		"\"MetadataDelta\",operation_status=\"OK\"} 2\n",
		"method_name=\"/csi.v1.SnapshotMetadata/GetMetadataDelta\",grpc_status_code=\"OK\"} "
		"2\n",
		"method_name=\"/csi.v1.Identity/GetPluginInfo\",grpc_status_code=\"OK\"} 1\n",
		"cairn_sidecar_relayed_total{unit=\"tuples\"} 90\n",
		"cairn_sidecar_token_cache_misses_total 1\n",
	};
	struct sidecar_stage s;
	struct cairn_err err = {0};
	char *metrics = NULL;

	(void)state;
	start_whole(&s, &usual, three_messages);
	assert_ok(call_once(&s, "good", NULL, "snap", NULL, &err), &err);
	assert_ok(call_once(&s, "good", "b1", "snap", NULL, &err), &err);
	assert_ok(call_once(&s, "good", "b2", "snap", NULL, &err), &err);
	assert_code(call_once(&s, "good", "b2", "none", NULL, &err), CAIRN_NOT_FOUND);
	assert_int_equal(stage_http(&s, "/metrics", &metrics), 200);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strstr(metrics, wanted[i]))
			fail_msg("no %s in %s", wanted[i], metrics);
	free(metrics);
	stage_stop(&s);
}

static void a_port_that_is_taken_keeps_nobody_from_being_served(void **state)
{
	struct sidecar_options o = usual;
	struct sidecar_stage first, second;
	struct cairn_err err = {0};
	char address[32];

	(void)state;
	start_whole(&first, &usual, three_messages);
	snprintf(address, sizeof(address), "127.0.0.1:%u", sidecar_http_port(first.sidecar));
	o.http_listen = address;
	stage_prepare(&second);
	stage_start(&second, &o);
	second.script = three_messages;
	stage_driver_start(&second);
	assert_int_equal(sidecar_http_port(second.sidecar), 0);
	for (int i = 0; i < 6000; i++) {
		if (call_once(&second, "good", NULL, "snap", NULL, &err) == 0)
			break;
		cairn_sleep_ms(10);
	}
	assert_ok(call_once(&second, "good", NULL, "snap", NULL, &err), &err);
	stage_stop(&first);
	for (int i = 0; i < 6000 && sidecar_http_port(second.sidecar) == 0; i++)
		cairn_sleep_ms(10);
	stage_wait_ready(&second, true);
	stage_stop(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_drivers_bytes_arrive_unchanged),
		cmocka_unit_test(names_become_handles_and_the_secret_goes_along),
		cmocka_unit_test(each_refusal_has_its_code),
		cmocka_unit_test(
			a_driver_that_breaks_the_rules_is_stopped_before_the_caller_sees_it),
		cmocka_unit_test(a_drivers_status_passes_unchanged_except_unknown),
		cmocka_unit_test(a_message_above_4_mib_passes_and_one_above_the_limit_does_not),
		cmocka_unit_test(health_is_served_before_the_driver_is_there),
		cmocka_unit_test(a_driver_that_restarts_is_found_again),
		cmocka_unit_test(a_driver_that_can_not_or_is_another_never_becomes_ready),
		cmocka_unit_test(streams_are_bounded_in_all_and_per_user),
		cmocka_unit_test(who_waited_is_checked_again),
		cmocka_unit_test(a_wait_has_a_limit),
		cmocka_unit_test(strangers_do_not_fill_the_log_with_our_own_failures),
		cmocka_unit_test(a_stream_has_a_time_limit_of_any_unit),
		cmocka_unit_test(a_caller_that_leaves_frees_the_driver_and_its_place),
		cmocka_unit_test(no_caller_is_read_ahead_of_further_than_the_limit),
		cmocka_unit_test(a_drain_has_a_limit),
		cmocka_unit_test(nobody_can_add_series),
		cmocka_unit_test(both_methods_are_counted_under_their_own_names),
		cmocka_unit_test(a_port_that_is_taken_keeps_nobody_from_being_served),
	};

	return cmocka_run_group_tests_name("sidecar with a made-up Kubernetes", tests, NULL, NULL);
}
