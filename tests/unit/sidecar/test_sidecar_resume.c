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
static const struct sidecar_options brief = {.keep_ms = 60000, .resume_ms = 300};
/* Long enough for a second attempt, also on a busy machine. */
static const struct sidecar_options two_attempts = {.keep_ms = 60000, .resume_ms = 3000};
static const struct sidecar_options uncached = {.resume_ms = LONG_MS};

static _Atomic uint64_t stop_after; /* tuples, from the volume's start; then the stream hangs */
static _Atomic unsigned calls;      /* of the driver */
static _Atomic int first_answer;    /* code of the driver instead of messages */
static _Atomic bool from_start;     /* the driver ignores starting_offset */

/* Sends the tuples from the request's starting offset on, and hangs after `stop_after`. */
static int from_offset(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		       size_t n, struct cairn_err *err)
{
	uint64_t i = from_start ? 0 : (stage_offset_of(request, n) + STEP - 1) / STEP;
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

static struct sidecar_stage stage;

static void resume_start(const struct sidecar_options *options, uint64_t stop)
{
	calls = 0;
	first_answer = 0;
	from_start = false;
	stop_after = stop;
	stage_prepare(&stage);
	stage.script = from_offset;
	stage_driver_start(&stage);
	stage_start(&stage, options);
	stage_wait_ready(&stage, true);
}

static int resume_end(void **state)
{
	(void)state;
	stage_stop(&stage);
	return 0;
}

static struct net_rpc *call_as(const char *token)
{
	return stage_call(&stage, token, NULL, "snap", CALL_LIMIT);
}

/* Makes a call and asserts its status. */
static void call_ends_with(const char *token, int code, struct cairn_err *err)
{
	assert_code(stage_finish(call_as(token), NULL, err), code);
}

/* A caller that reads a stream. */
struct reader {
	struct net_rpc *rpc;
	struct proto_block_scan scan;
	uint64_t next; /* index of the tuple that must come */
};

static int take_tuple(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct reader *reader = arg;

	(void)err;
	assert_int_equal(extent->offset, reader->next * STEP);
	assert_int_equal(extent->length, 4096);
	reader->next++;
	return 0;
}

/* Receives messages until `until` tuples are there or the stream ends, and asserts its
 * status: 1 while it goes on. */
static void reader_takes(struct reader *reader, uint64_t until, int status)
{
	struct block_sink sink = {.emit = take_tuple, .arg = reader};
	struct cairn_err err = {0};
	const uint8_t *data;
	int rc = 1;
	size_t n;

	while (reader->next < until && (rc = net_rpc_recv(reader->rpc, &data, &n, &err)) == 1)
		assert_ok(proto_block_scan(&reader->scan, data, n, &sink, &err), &err);
	assert_code(rc, status);
}

/* Asserts that the stream ends with `status` after `tuples` of them. */
static void reader_ends(struct reader *reader, int status, uint64_t tuples)
{
	reader_takes(reader, UINT64_MAX, status);
	assert_int_equal(reader->next, tuples);
	net_rpc_free(reader->rpc);
}

/* A caller that has read the first message; the driver sends no more. */
static struct reader reader_of_first_message(const struct sidecar_options *options)
{
	struct reader reader = {0};

	resume_start(options, PER_MESSAGE);
	reader.rpc = call_as("good");
	reader_takes(&reader, PER_MESSAGE, 1);
	return reader;
}

static void restart_driver(void)
{
	stage_driver_stop(&stage);
	stage_driver_start(&stage);
}

static void stop_driver_until_noticed(void)
{
	stage_driver_stop(&stage);
	stage_wait_ready(&stage, false);
}

static void a_stream_goes_on_where_the_driver_left_it(void **state)
{
	struct reader reader = {0};
	char *body = NULL;

	(void)state;
	resume_start(&usual, 3 * PER_MESSAGE);
	reader.rpc = call_as("good");
	for (unsigned stop = 3; stop < MESSAGES; stop += 12) {
		reader_takes(&reader, (uint64_t)stop * PER_MESSAGE, 1);
		stop_after = (uint64_t)(stop + 12) * PER_MESSAGE;
		restart_driver();
	}
	stop_after = NO_STOP;
	reader_ends(&reader, 0, TUPLES);
	assert_int_equal(stage_http(&stage, "/metrics", &body), 200);
	assert_non_null(strstr(body, "cairn_sidecar_resumed_total"));
	assert_null(strstr(body, "cairn_sidecar_resumed_total 0\n"));
	free(body);
}

static void a_driver_killed_at_random_loses_no_block(void **state)
{
	/* A driver that says UNAVAILABLE before its first message, as one that stops does, is
	 * believed. */
	struct reader reader = reader_of_first_message(&usual);
	unsigned chance = 7;

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		chance = chance * 1103515245U + 12345U;
		stop_after += chance >> 16 & 63U;
		cairn_sleep_ms(chance >> 20 & 31U); /* the kill may come before or after it */
		restart_driver();
	}
	stop_after = NO_STOP;
	reader_ends(&reader, 0, TUPLES);
}

static void a_driver_that_does_not_come_back_ends_the_stream(void **state)
{
	struct reader reader = reader_of_first_message(&brief);

	(void)state;
	stage_driver_stop(&stage);
	reader_ends(&reader, CAIRN_UNAVAILABLE, PER_MESSAGE);
}

static void a_driver_that_comes_back_with_other_blocks_ends_the_stream(void **state)
{
	struct reader reader = reader_of_first_message(&usual);

	(void)state;
	from_start = true; /* sends the first blocks once more */
	restart_driver();
	reader_ends(&reader, CAIRN_INTERNAL, PER_MESSAGE);
}

static void what_a_driver_answers_at_once_is_passed_on_at_once(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	resume_start(&usual, NO_STOP);
	first_answer = CAIRN_UNAVAILABLE;
	call_ends_with("good", CAIRN_UNAVAILABLE, &err);
	assert_string_equal(err.msg, "the driver says so");
	assert_int_equal(calls, 1);
}

static void a_right_that_was_revoked_meanwhile_ends_the_stream(void **state)
{
	struct reader reader = reader_of_first_message(&uncached);

	(void)state;
	world_forget_token(&stage.world, "good");
	stage_driver_stop(&stage);
	stop_after = NO_STOP; /* of the next one: the first could send the rest before its end */
	stage_driver_start(&stage);
	reader_ends(&reader, CAIRN_UNAUTHENTICATED, PER_MESSAGE);
}

static void a_call_while_the_driver_is_away_waits_for_it(void **state)
{
	struct cairn_err err = {0};
	struct net_rpc *rpc;
	unsigned messages;

	(void)state;
	resume_start(&usual, NO_STOP);
	stop_driver_until_noticed();
	rpc = call_as("good");
	cairn_sleep_ms(100);
	stage_driver_start(&stage);
	assert_ok(stage_finish(rpc, &messages, &err), &err);
	assert_int_equal(messages, MESSAGES);
	/* A stranger is refused without waiting for anything. */
	stop_driver_until_noticed();
	call_ends_with("bad", CAIRN_UNAUTHENTICATED, &err);
}

static void a_right_that_was_revoked_before_the_driver_came_back_is_refused(void **state)
{
	struct cairn_err err = {0};
	struct net_rpc *rpc;

	(void)state;
	resume_start(&uncached, NO_STOP);
	stop_driver_until_noticed();
	rpc = call_as("good");
	for (int i = 0; i < 6000 && stage.world.access_reviews == 0; i++)
		cairn_sleep_ms(10); /* until the token was accepted */
	world_forget_token(&stage.world, "good");
	stage_driver_start(&stage);
	assert_code(stage_finish(rpc, NULL, &err), CAIRN_UNAUTHENTICATED);
	assert_int_equal(calls, 0);
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
	struct cairn_err err = {0};

	(void)state;
	resume_start(&two_attempts, NO_STOP);
	stage.script = nothing_new;
	call_ends_with("good", CAIRN_UNAVAILABLE, &err);
	assert_string_equal(err.msg, "the driver says so");
	assert_in_range(calls, 2, UINT32_MAX);
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
	struct reader reader = {0};

	(void)state;
	resume_start(&usual, NO_STOP);
	stage.script = stopping;
	reader.rpc = call_as("good");
	reader_ends(&reader, 0, TUPLES);
}

#define FLAP_TUPLES   1000U
#define FLAP_MESSAGES 4U /* less than the window of the driver's stream */
#define FLAP_CALLS    40U

/* Sends less than a window from the offset on, then says UNAVAILABLE: each time. */
static int flapping(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		    size_t n, struct cairn_err *err)
{
	uint64_t first = (stage_offset_of(request, n) + STEP - 1) / STEP;
	int rc = 0;

	calls++;
	for (unsigned i = 0; i < FLAP_MESSAGES && rc == 0; i++)
		rc = stage_send(s, call, first + (uint64_t)i * FLAP_TUPLES, FLAP_TUPLES, err);
	return rc ? rc : cairn_err_set(err, CAIRN_UNAVAILABLE, "the driver says so");
}

static unsigned long long buffered_bytes(void)
{
	static const char name[] = "\ncairn_sidecar_buffered_bytes ";
	unsigned long long bytes = 0;
	char *body = NULL;
	const char *at;

	assert_int_equal(stage_http(&stage, "/metrics", &body), 200);
	at = strstr(body, name);
	assert_non_null(at);
	for (at += sizeof(name) - 1; *at >= '0' && *at <= '9'; at++)
		bytes = bytes * 10 + (unsigned long long)(*at - '0');
	free(body);
	return bytes;
}

static void a_caller_that_does_not_read_is_not_read_ahead_of_by_restarts(void **state)
{
	struct reader reader = {0};
	unsigned before;

	(void)state;
	resume_start(&usual, NO_STOP);
	stage.script = flapping;
	reader.rpc = call_as("good");
	reader_takes(&reader, FLAP_TUPLES, 1);
	do { /* until all of it stands still */
		before = calls;
		cairn_sleep_ms(300);
	} while (calls < FLAP_CALLS && (calls != before || buffered_bytes() == 0));
	/* The named limit, and the window of the driver's stream. */
	assert_in_range(buffered_bytes(), 1, SIDECAR_READ_AHEAD + (64U << 10));
	/* It goes on when the caller reads. */
	reader_takes(&reader, (uint64_t)FLAP_CALLS * FLAP_MESSAGES * FLAP_TUPLES, 1);
	net_rpc_free(reader.rpc);
}

static void a_sidecar_that_stops_waits_for_no_driver(void **state)
{
	struct reader reader = reader_of_first_message(&usual);

	(void)state;
	stage_driver_stop(&stage);
	assert_int_equal(sidecar_drain(stage.sidecar, LONG_MS), 0); /* it ended by itself */
	reader_ends(&reader, CAIRN_UNAVAILABLE, PER_MESSAGE);
}

/* The last block of the volume, and no status after it. */
static int last_block(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
		      size_t n, struct cairn_err *err)
{
	const uint64_t size = 1U << 20;
	struct proto_block_writer w;
	uint8_t *at;
	int rc = 0;

	if (stage_offset_of(request, n) >= size)
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

/* Starts a driver with the script, and a caller that has received one message. */
static struct net_rpc *rpc_of_one_message(stage_script script)
{
	struct cairn_err err = {0};
	const uint8_t *data;
	struct net_rpc *rpc;
	size_t n;

	resume_start(&usual, NO_STOP);
	stage.script = script;
	rpc = call_as("good");
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	return rpc;
}

static void a_complete_stream_carries_nothing_of_the_failure(void **state)
{
	struct net_rpc *rpc = rpc_of_one_message(last_block_then_failure);
	struct cairn_err err = {0};

	(void)state;
	assert_code(net_rpc_recv(rpc, &(const uint8_t *){NULL}, &(size_t){0}, &err), 0);
	assert_null(net_rpc_trailer(rpc, "grpc-status-details-bin", NULL));
	assert_null(net_rpc_trailer(rpc, "x-failure", NULL));
	net_rpc_free(rpc);
}

static void a_stream_whose_last_block_was_sent_needs_no_driver(void **state)
{
	struct net_rpc *rpc = rpc_of_one_message(last_block);
	struct cairn_err err = {0};

	(void)state;
	restart_driver();
	assert_code(net_rpc_recv(rpc, &(const uint8_t *){NULL}, &(size_t){0}, &err), 0);
	net_rpc_free(rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_stream_goes_on_where_the_driver_left_it, resume_end),
		cmocka_unit_test_teardown(a_driver_killed_at_random_loses_no_block, resume_end),
		cmocka_unit_test_teardown(a_driver_that_does_not_come_back_ends_the_stream,
					  resume_end),
		cmocka_unit_test_teardown(
			a_driver_that_comes_back_with_other_blocks_ends_the_stream, resume_end),
		cmocka_unit_test_teardown(what_a_driver_answers_at_once_is_passed_on_at_once,
					  resume_end),
		cmocka_unit_test_teardown(a_right_that_was_revoked_meanwhile_ends_the_stream,
					  resume_end),
		cmocka_unit_test_teardown(a_call_while_the_driver_is_away_waits_for_it, resume_end),
		cmocka_unit_test_teardown(
			a_right_that_was_revoked_before_the_driver_came_back_is_refused,
			resume_end),
		cmocka_unit_test_teardown(a_driver_without_progress_ends_the_stream, resume_end),
		cmocka_unit_test_teardown(
			a_caller_that_does_not_read_is_not_read_ahead_of_by_restarts, resume_end),
		cmocka_unit_test_teardown(a_driver_that_refuses_while_it_stops_is_awaited,
					  resume_end),
		cmocka_unit_test_teardown(a_sidecar_that_stops_waits_for_no_driver, resume_end),
		cmocka_unit_test_teardown(a_stream_whose_last_block_was_sent_needs_no_driver,
					  resume_end),
		cmocka_unit_test_teardown(a_complete_stream_carries_nothing_of_the_failure,
					  resume_end),
	};

	return cmocka_run_group_tests_name("sidecar/resume", tests, NULL, NULL);
}
