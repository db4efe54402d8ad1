/* SPDX-License-Identifier: Apache-2.0 */

/* Streams over restarts of the driver: each block reaches the caller once, or the stream
 * fails. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "block/extent.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "sidecar_driver.h"

#define STEP        8192U /* between the tuples of stage_send() */
#define PER_MESSAGE 10U
#define MESSAGES    40U
#define TUPLES      (PER_MESSAGE * MESSAGES)
#define LONG_MS     60000U
#define CALL_LIMIT  120000U
#define NO_STOP     UINT64_MAX

static const struct sidecar_options usual = {.keep_ms = 60000, .resume_ms = LONG_MS};

static _Atomic uint64_t stop_after; /* tuples, from the volume's start; then the stream hangs */
static _Atomic unsigned calls;      /* of the driver */
static _Atomic int first_answer;    /* code of the driver instead of messages */
static _Atomic bool from_start;     /* the driver ignores starting_offset */

static uint64_t offset_of(const uint8_t *request, size_t n)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	struct cairn_err err = {0};

	assert_ok(proto_unpack(&csi__v1__get_metadata_allocated_request__descriptor, request, n,
			       &message, &err),
		  &err);
	return (uint64_t)((const Csi__V1__GetMetadataAllocatedRequest *)(const void *)message)
		->starting_offset;
}

/* Sends the tuples from the request's starting offset on, and hangs after `stop_after`. */
static int from_offset(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		       size_t n, struct cairn_err *err)
{
	uint64_t i = from_start ? 0 : (offset_of(request, n) + STEP - 1) / STEP;
	int rc = 0;

	calls++;
	if (first_answer)
		return cairn_err_set(err, first_answer, "the driver says so");
	for (; i < TUPLES && rc == 0; i += PER_MESSAGE) {
		while (rc == 0 && i >= stop_after)
			rc = net_call_sleep(call, 5, err);
		if (rc == 0)
			rc = stage_send(s, call, i, PER_MESSAGE, err);
	}
	return rc;
}

static void resume_start(struct sidecar_stage *s, const struct sidecar_options *options,
			 uint64_t stop)
{
	calls = 0;
	first_answer = 0;
	from_start = false;
	stop_after = stop;
	stage_prepare(s);
	s->script = from_offset;
	stage_driver_start(s);
	stage_start(s, options);
	stage_wait_ready(s, true);
}

struct seen {
	uint64_t next; /* index of the tuple that must come */
};

static int take_tuple(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	assert_int_equal(extent->offset, seen->next * STEP);
	assert_int_equal(extent->length, 4096);
	seen->next++;
	return 0;
}

/* Receives messages until `until` tuples are there or the stream ends; its status, 1 while
 * it goes on. */
static int receive(struct net_rpc *rpc, struct proto_block_scan *scan, struct seen *seen,
		   uint64_t until, struct cairn_err *err)
{
	struct block_sink sink = {.emit = take_tuple, .arg = seen};
	const uint8_t *data;
	int rc = 1;
	size_t n;

	while (seen->next < until && (rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
		assert_ok(proto_block_scan(scan, data, n, &sink, err), err);
	return rc;
}

static void restart_driver(struct sidecar_stage *s)
{
	stage_driver_stop(s);
	stage_driver_start(s);
}

static void a_stream_goes_on_where_the_driver_left_it(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;
	char *body = NULL;

	(void)state;
	resume_start(&s, &usual, 3 * PER_MESSAGE);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	for (unsigned stop = 3; stop < MESSAGES; stop += 12) {
		assert_int_equal(receive(rpc, &scan, &seen, (uint64_t)stop * PER_MESSAGE, &err), 1);
		stop_after = (uint64_t)(stop + 12) * PER_MESSAGE;
		restart_driver(&s);
	}
	stop_after = NO_STOP;
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), 0);
	assert_int_equal(seen.next, TUPLES);
	net_rpc_free(rpc);
	assert_int_equal(stage_http(&s, "/metrics", &body), 200);
	assert_non_null(strstr(body, "cairn_sidecar_resumed_total"));
	assert_null(strstr(body, "cairn_sidecar_resumed_total 0\n"));
	free(body);
	stage_stop(&s);
}

static void a_driver_killed_at_random_loses_no_block(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;
	unsigned chance = 7;

	(void)state;
	resume_start(&s, &usual, 0);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	for (unsigned i = 0; i < 8; i++) {
		chance = chance * 1103515245U + 12345U;
		stop_after += chance >> 16 & 63U;
		cairn_sleep_ms(chance >> 20 & 31U); /* the kill may come before or after it */
		restart_driver(&s);
	}
	stop_after = NO_STOP;
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), 0);
	assert_int_equal(seen.next, TUPLES);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_driver_that_does_not_come_back_ends_the_stream(void **state)
{
	const struct sidecar_options brief = {.keep_ms = 60000, .resume_ms = 300};
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &brief, PER_MESSAGE);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(receive(rpc, &scan, &seen, PER_MESSAGE, &err), 1);
	stage_driver_stop(&s);
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_driver_that_comes_back_with_other_blocks_ends_the_stream(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &usual, PER_MESSAGE);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(receive(rpc, &scan, &seen, PER_MESSAGE, &err), 1);
	from_start = true; /* sends the first blocks once more */
	restart_driver(&s);
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), CAIRN_INTERNAL);
	assert_int_equal(seen.next, PER_MESSAGE);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void what_a_driver_answers_at_once_is_passed_on_at_once(void **state)
{
	struct cairn_err err = {0};
	struct sidecar_stage s;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	first_answer = CAIRN_UNAVAILABLE;
	assert_code(stage_finish(stage_call(&s, "good", NULL, "snap", CALL_LIMIT), NULL, &err),
		    CAIRN_UNAVAILABLE);
	assert_string_equal(err.msg, "the driver says so");
	assert_int_equal(calls, 1);
	stage_stop(&s);
}

static void a_right_that_was_revoked_meanwhile_ends_the_stream(void **state)
{
	const struct sidecar_options uncached = {.resume_ms = LONG_MS};
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &uncached, PER_MESSAGE);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(receive(rpc, &scan, &seen, PER_MESSAGE, &err), 1);
	world_forget_token(&s.world, "good");
	stop_after = NO_STOP;
	restart_driver(&s);
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), CAIRN_UNAUTHENTICATED);
	assert_int_equal(seen.next, PER_MESSAGE);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_call_while_the_driver_is_away_waits_for_it(void **state)
{
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;
	unsigned messages;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	stage_driver_stop(&s);
	stage_wait_ready(&s, false);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	cairn_sleep_ms(100);
	stage_driver_start(&s);
	assert_ok(stage_finish(rpc, &messages, &err), &err);
	assert_int_equal(messages, MESSAGES);
	/* A stranger is refused without waiting for anything. */
	stage_driver_stop(&s);
	stage_wait_ready(&s, false);
	assert_code(stage_finish(stage_call(&s, "bad", NULL, "snap", CALL_LIMIT), NULL, &err),
		    CAIRN_UNAUTHENTICATED);
	stage_stop(&s);
}

static void a_right_that_was_revoked_before_the_driver_came_back_is_refused(void **state)
{
	const struct sidecar_options uncached = {.resume_ms = LONG_MS};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &uncached, NO_STOP);
	stage_driver_stop(&s);
	stage_wait_ready(&s, false);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	for (int i = 0; i < 6000 && s.world.access_reviews == 0; i++)
		cairn_sleep_ms(10); /* until the token was accepted */
	world_forget_token(&s.world, "good");
	stage_driver_start(&s);
	assert_code(stage_finish(rpc, NULL, &err), CAIRN_UNAUTHENTICATED);
	assert_int_equal(calls, 0);
	stage_stop(&s);
}

/* A message without tuples, then UNAVAILABLE: each time. */
static int nothing_new(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		       size_t n, struct cairn_err *err)
{
	int rc = stage_send(s, call, 0, 0, err);

	(void)request;
	(void)n;
	calls++;
	return rc ? rc : cairn_err_set(err, CAIRN_UNAVAILABLE, "the driver says so");
}

static void a_driver_without_progress_ends_the_stream(void **state)
{
	const struct sidecar_options brief = {.keep_ms = 60000, .resume_ms = 300};
	struct cairn_err err = {0};
	struct sidecar_stage s;

	(void)state;
	resume_start(&s, &brief, NO_STOP);
	s.script = nothing_new;
	assert_code(stage_finish(stage_call(&s, "good", NULL, "snap", CALL_LIMIT), NULL, &err),
		    CAIRN_UNAVAILABLE);
	assert_string_equal(err.msg, "the driver says so");
	assert_in_range(calls, 2, UINT32_MAX);
	stage_stop(&s);
}

/* A driver that stops: it ends its stream, then refuses new ones for some time. */
static int stopping(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		    size_t n, struct cairn_err *err)
{
	int rc = 0;

	if (calls >= 3)
		return from_offset(s, call, request, n, err);
	if (calls++ == 0)
		rc = stage_send(s, call, 0, PER_MESSAGE, err);
	return rc ? rc : cairn_err_set(err, CAIRN_UNAVAILABLE, "the driver says so");
}

static void a_driver_that_refuses_while_it_stops_is_awaited(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	s.script = stopping;
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), 0);
	assert_int_equal(seen.next, TUPLES);
	net_rpc_free(rpc);
	stage_stop(&s);
}

#define FLAP_TUPLES   1000U
#define FLAP_MESSAGES 4U /* less than the window of the driver's stream */
#define FLAP_CALLS    40U

/* Sends less than a window from the offset on, then says UNAVAILABLE: each time. */
static int flapping(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		    size_t n, struct cairn_err *err)
{
	uint64_t first = (offset_of(request, n) + STEP - 1) / STEP;
	int rc = 0;

	calls++;
	for (unsigned i = 0; i < FLAP_MESSAGES && rc == 0; i++)
		rc = stage_send(s, call, first + (uint64_t)i * FLAP_TUPLES, FLAP_TUPLES, err);
	return rc ? rc : cairn_err_set(err, CAIRN_UNAVAILABLE, "the driver says so");
}

static unsigned long long buffered_bytes(struct sidecar_stage *s)
{
	static const char name[] = "\ncairn_sidecar_buffered_bytes ";
	unsigned long long bytes = 0;
	char *body = NULL;
	const char *at;

	assert_int_equal(stage_http(s, "/metrics", &body), 200);
	at = strstr(body, name);
	assert_non_null(at);
	for (at += sizeof(name) - 1; *at >= '0' && *at <= '9'; at++)
		bytes = bytes * 10 + (unsigned long long)(*at - '0');
	free(body);
	return bytes;
}

static void a_caller_that_does_not_read_is_not_read_ahead_of_by_restarts(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	unsigned before = 0;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	s.script = flapping;
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(receive(rpc, &scan, &seen, FLAP_TUPLES, &err), 1);
	while (calls != before && calls < FLAP_CALLS) { /* until all of it stands still */
		before = calls;
		cairn_sleep_ms(300);
	}
	/* The named limit, and the window of the driver's stream. */
	assert_in_range(buffered_bytes(&s), 1, SIDECAR_READ_AHEAD + (64U << 10));
	/* It goes on when the caller reads. */
	assert_int_equal(receive(rpc, &scan, &seen,
				 (uint64_t)FLAP_CALLS * FLAP_MESSAGES * FLAP_TUPLES, &err),
			 1);
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_sidecar_that_stops_waits_for_no_driver(void **state)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct cairn_err err = {0};
	struct sidecar_stage s;
	struct net_rpc *rpc;

	(void)state;
	resume_start(&s, &usual, PER_MESSAGE);
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(receive(rpc, &scan, &seen, PER_MESSAGE, &err), 1);
	stage_driver_stop(&s);
	assert_int_equal(sidecar_drain(s.sidecar, LONG_MS), 0); /* it ended by itself */
	assert_code(receive(rpc, &scan, &seen, UINT64_MAX, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(rpc);
	stage_stop(&s);
}

/* The last block of the volume, and no status after it. */
static int last_block(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		      size_t n, struct cairn_err *err)
{
	const uint64_t size = 1U << 20;
	struct proto_block_writer w;
	uint8_t *at;
	int rc = 0;

	if (offset_of(request, n) >= size)
		return cairn_err_set(err, CAIRN_RANGE, "starting_offset is past the end");
	assert_ok(net_call_reserve(call, PROTO_BLOCK_ROOM(1), &at, err), err);
	proto_block_begin(&w, at, PROTO_BLOCK_ROOM(1), PROTO_BLOCK_VARIABLE, size);
	proto_block_add(&w, size - 4096, 4096);
	net_call_commit(call, proto_block_len(&w), false);
	while (rc == 0 && !s->release)
		rc = net_call_sleep(call, 5, err);
	return rc;
}

/* The last block, then a failure with details and a trailer. */
static int last_block_then_failure(struct sidecar_stage *s, struct net_call *call,
				   const uint8_t *request, size_t n, struct cairn_err *err)
{
	int rc;

	s->release = true;
	rc = last_block(s, call, request, n, err);
	if (rc)
		return rc;
	assert_ok(net_call_set_details(call, "\x08\x0e", 2, err), err);
	assert_ok(net_call_add_trailer(call, "x-failure", "yes", 3, err), err);
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "the driver says so");
}

static void a_complete_stream_carries_nothing_of_the_failure(void **state)
{
	struct cairn_err err = {0};
	struct sidecar_stage s;
	const uint8_t *data;
	struct net_rpc *rpc;
	size_t n;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	s.script = last_block_then_failure;
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	assert_code(net_rpc_recv(rpc, &data, &n, &err), 0);
	assert_null(net_rpc_trailer(rpc, "grpc-status-details-bin", NULL));
	assert_null(net_rpc_trailer(rpc, "x-failure", NULL));
	net_rpc_free(rpc);
	stage_stop(&s);
}

static void a_stream_whose_last_block_was_sent_needs_no_driver(void **state)
{
	struct cairn_err err = {0};
	struct sidecar_stage s;
	const uint8_t *data;
	struct net_rpc *rpc;
	size_t n;

	(void)state;
	resume_start(&s, &usual, NO_STOP);
	s.script = last_block;
	rpc = stage_call(&s, "good", NULL, "snap", CALL_LIMIT);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	restart_driver(&s);
	assert_code(net_rpc_recv(rpc, &data, &n, &err), 0);
	net_rpc_free(rpc);
	stage_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_goes_on_where_the_driver_left_it),
		cmocka_unit_test(a_driver_killed_at_random_loses_no_block),
		cmocka_unit_test(a_driver_that_does_not_come_back_ends_the_stream),
		cmocka_unit_test(a_driver_that_comes_back_with_other_blocks_ends_the_stream),
		cmocka_unit_test(what_a_driver_answers_at_once_is_passed_on_at_once),
		cmocka_unit_test(a_right_that_was_revoked_meanwhile_ends_the_stream),
		cmocka_unit_test(a_call_while_the_driver_is_away_waits_for_it),
		cmocka_unit_test(a_right_that_was_revoked_before_the_driver_came_back_is_refused),
		cmocka_unit_test(a_driver_without_progress_ends_the_stream),
		cmocka_unit_test(a_caller_that_does_not_read_is_not_read_ahead_of_by_restarts),
		cmocka_unit_test(a_driver_that_refuses_while_it_stops_is_awaited),
		cmocka_unit_test(a_sidecar_that_stops_waits_for_no_driver),
		cmocka_unit_test(a_stream_whose_last_block_was_sent_needs_no_driver),
		cmocka_unit_test(a_complete_stream_carries_nothing_of_the_failure),
	};

	return cmocka_run_group_tests_name("sidecar/resume", tests, NULL, NULL);
}
