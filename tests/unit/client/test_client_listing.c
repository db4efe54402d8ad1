/* SPDX-License-Identifier: Apache-2.0 */

/* Listings against a scripted peer, over a unix socket or TLS; no Kubernetes. */

#include <cairn/client.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cairntest.h"
#include "net/grpc/grpc_server.h"
#include "net/tls/tls_settings.h"
#include "scripted_service.h"
#include "tls_files.h"

#define MAX_MESSAGES SCRIPTED_ALL

/* What a listing returned. */
struct seen {
	uint64_t blocks, bytes, end;
	struct cairn_listing_info info;
	struct cairn_client_error error;
};

struct scene {
	struct scripted_service service;
	struct net_server *server;
	struct net_tls *tls;
	struct cairn_client *client;
	char dir[64], address[128], ca[96], token_file[96];
	struct cairn_listing_query query;
	struct seen seen;
	unsigned retries;
	int last_code;
};

static void make_tls(struct scene *s, struct cairn_err *err)
{
	const long day = 24L * 3600;
	struct tls_pair ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "ca", .not_before = -day, .not_after = day});
	struct tls_pair leaf = tls_pair_make(&(struct tls_pair_spec){.name = "service",
								     .alt = "DNS:service.example",
								     .issuer = &ca,
								     .not_before = -day,
								     .not_after = day});
	char cert[96], key[96];

	tls_cert_write(s->dir, "ca.pem", &ca);
	tls_cert_write(s->dir, "cert.pem", &leaf);
	tls_key_write(s->dir, "key.pem", &leaf);
	tls_pair_done(&ca);
	tls_pair_done(&leaf);
	snprintf(cert, sizeof(cert), "%s/cert.pem", s->dir);
	snprintf(key, sizeof(key), "%s/key.pem", s->dir);
	snprintf(s->ca, sizeof(s->ca), "%s/ca.pem", s->dir);
	assert_ok(net_tls_server_new(
			  &(struct net_tls_options){.cert_file = cert, .key_file = key, .h2 = true},
			  &s->tls, err),
		  err);
}

static void on_retry(void *arg, const struct cairn_client_error *why, uint64_t wait_ms)
{
	struct scene *s = arg;

	(void)wait_ms;
	s->retries++;
	s->last_code = why->code;
	assert_non_null(strstr(why->message, "")); /* is terminated */
}

static struct cairn_listing_query question(struct scene *s)
{
	return (struct cairn_listing_query){
		.size = sizeof(struct cairn_listing_query),
		.namespace_name = "ns",
		.snapshot = "snap",
		.on_retry = on_retry,
		.on_retry_arg = s,
	};
}

static void scene_start(struct scene *s, bool with_tls, const struct scripted_step *steps, size_t n)
{
	struct cairn_err err = {0};
	char path[96];
	uint16_t port;

	memset(s, 0, sizeof(*s));
	s->query = question(s);
	scratch_template(s->dir, "listing");
	assert_non_null(mkdtemp(s->dir));
	scripted_service_init(&s->service);
	s->service.steps = steps;
	s->service.n_steps = n;
	assert_ok(net_server_new(&(struct net_server_options){0}, &s->server, &err), &err);
	assert_ok(scripted_service_add(&s->service, s->server, &err), &err);
	if (with_tls) {
		make_tls(s, &err);
		assert_ok(net_server_listen_tcp(s->server, "127.0.0.1:0", s->tls, &port, &err),
			  &err);
		snprintf(s->address, sizeof(s->address), "127.0.0.1:%u", port);
	} else {
		snprintf(path, sizeof(path), "%s/s", s->dir);
		assert_ok(net_server_listen_unix(s->server, path, 0600, &err), &err);
		snprintf(s->address, sizeof(s->address), "unix:%s", path);
	}
	assert_ok(net_server_start(s->server, &err), &err);
	snprintf(s->token_file, sizeof(s->token_file), "%s/token", s->dir);
}

static void scene_client(struct scene *s, struct cairn_client_options options)
{
	struct cairn_client_error error;

	options.size = sizeof(options);
	if (!options.address)
		options.address = s->address;
	if (!options.token_file && !options.token_fn)
		options.token = "secret-1";
	if (cairn_client_new(&options, &s->client, &error) < 0)
		fail_msg("%s", error.message);
}

/* Over a unix socket, with a fixed token. */
static void scene_plain(struct scene *s, const struct scripted_step *steps, size_t n)
{
	scene_start(s, false, steps, n);
	scene_client(s, (struct cairn_client_options){0});
}

static void scene_stop(struct scene *s)
{
	static const char *const names[] = {"ca.pem", "cert.pem", "key.pem", "token", "s"};

	cairn_client_free(s->client);
	net_server_free(s->server);
	net_tls_free(s->tls);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", s->dir, names[i]);
		unlink(path);
	}
	rmdir(s->dir);
}

/* Lists to the end and holds the blocks to what the service has. */
static int list(struct scene *s, const struct cairn_listing_query *query, struct seen *seen)
{
	const struct scripted_service *service = &s->service;
	uint64_t next = query->starting_offset / service->stride;
	struct cairn_listing *listing;
	const struct cairn_block *blocks;
	size_t n;
	int rc;

	*seen = (struct seen){.info.size = sizeof(seen->info)};
	if (cairn_listing_new(s->client, query, &listing, &seen->error) < 0)
		return seen->error.code;
	while ((rc = cairn_listing_next(listing, &blocks, &n, &seen->error)) == 1) {
		for (size_t i = 0; i < n; i++, next++) {
			assert_int_equal(blocks[i].offset + blocks[i].length,
					 next * service->stride + service->length);
			assert_true(blocks[i].offset >= seen->end);
			seen->blocks++;
			seen->bytes += blocks[i].length;
			seen->end = blocks[i].offset + blocks[i].length;
		}
	}
	assert_int_equal(cairn_listing_next(listing, &blocks, &n, NULL), rc); /* it stays so */
	cairn_listing_info(listing, &seen->info);
	cairn_listing_free(listing);
	return rc;
}

/* Lists with the scene's query. */
static int scene_list(struct scene *s)
{
	return list(s, &s->query, &s->seen);
}

static void a_listing_comes_whole_and_in_order(void **state)
{
	struct scene s;

	(void)state;
	scene_plain(&s, NULL, 0);
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.blocks, s.service.blocks);
	assert_int_equal(s.seen.info.kind, CAIRN_LISTING_ALLOCATED);
	assert_int_equal(s.seen.info.type, CAIRN_LISTING_VARIABLE_LENGTH);
	assert_int_equal(s.seen.info.capacity, scripted_service_capacity(&s.service));
	assert_int_equal(s.seen.info.bytes, s.seen.bytes);
	assert_int_equal(s.seen.info.streams, 1);
	assert_string_equal(s.service.token, "secret-1");
	assert_string_equal(s.service.namespace_name, "ns");
	assert_string_equal(s.service.snapshot, "snap");
	scene_stop(&s);
}

static void a_base_makes_it_a_listing_of_changes(void **state)
{
	struct scene s;

	(void)state;
	scene_plain(&s, NULL, 0);
	s.query.base_id = "handle-7";
	s.query.starting_offset = 100 * s.service.stride;
	s.query.max_results = 3;
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.blocks, s.service.blocks - 100);
	assert_int_equal(s.seen.info.kind, CAIRN_LISTING_CHANGED);
	assert_int_equal(s.seen.info.messages, 300);
	assert_string_equal(s.service.base, "handle-7");
	assert_true(s.service.deltas[0]);
	scene_stop(&s);
}

static void a_broken_stream_is_taken_up_where_it_broke(void **state)
{
	static const int codes[] = {CAIRN_UNAVAILABLE, CAIRN_DEADLINE, CAIRN_CANCELLED,
				    CAIRN_INTERNAL,    CAIRN_NO_SPACE, CAIRN_ABORTED,
				    CAIRN_UNKNOWN};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		const struct scripted_step steps[] = {
			{.messages = 3, .code = codes[i]},
			{.messages = 0, .code = codes[i]},
			{.messages = 50, .code = codes[i], .fault = SCRIPTED_STRADDLE},
			{.messages = MAX_MESSAGES},
		};
		struct scene s;

		scene_plain(&s, steps, ARRAY_LEN(steps));
		if (scene_list(&s) != 0)
			fail_msg("%s: %s", cairn_code_name(codes[i]), s.seen.error.message);
		assert_int_equal(s.seen.blocks, s.service.blocks);
		assert_int_equal(s.seen.info.streams, 4);
		assert_int_equal(s.retries, 3);
		assert_int_equal(s.last_code, codes[i]);
		assert_int_equal(s.service.offsets[1], 29 * s.service.stride + s.service.length);
		assert_int_equal(s.service.offsets[2], s.service.offsets[1]);
		assert_int_equal(s.service.offsets[3], 529 * s.service.stride + s.service.length);
		scene_stop(&s);
	}
}

static void a_failure_that_does_not_pass_ends_the_listing(void **state)
{
	static const int codes[] = {CAIRN_INVALID,      CAIRN_NOT_FOUND, CAIRN_DENIED,
				    CAIRN_PRECONDITION, CAIRN_RANGE,     CAIRN_UNIMPLEMENTED,
				    CAIRN_DATA_LOSS};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		const struct scripted_step steps[] = {{.messages = 2, .code = codes[i]}};
		struct scene s;

		scene_plain(&s, steps, 1);
		assert_int_equal(scene_list(&s), codes[i]);
		assert_int_equal(s.seen.error.code, codes[i]);
		assert_string_equal(s.seen.error.message, "as the script says");
		assert_int_equal(s.seen.blocks, 20);
		assert_int_equal(s.seen.info.streams, 1);
		assert_int_equal(s.seen.info.position, s.seen.end);
		scene_stop(&s);
	}
}

static void patience_ends_and_no_retry_means_none(void **state)
{
	const struct scripted_step steps[] = {{.messages = 0, .code = CAIRN_UNAVAILABLE}};
	struct scene s;

	(void)state;
	scene_plain(&s, steps, 1);
	s.query.patience_ms = 5000; /* a busy machine may take long for the first attempt */
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_UNAVAILABLE);
	assert_in_range(s.retries, 1, 8);
	s.query.no_retry = true;
	s.retries = 0;
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_UNAVAILABLE);
	assert_int_equal(s.retries, 0);
	scene_stop(&s);
}

static void a_service_that_only_announces_itself_uses_up_patience(void **state)
{
	const struct scripted_step steps[] = {{.messages = MAX_MESSAGES, .code = CAIRN_INTERNAL}};
	struct scene s;

	(void)state;
	scene_start(&s, false, steps, 1);
	s.service.announce = true;
	scene_client(&s, (struct cairn_client_options){0});
	s.query.starting_offset = scripted_service_capacity(&s.service) - 1; /* no block there */
	s.query.patience_ms = 5000;
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_INTERNAL);
	assert_in_range(s.retries, 1, 10);
	scene_stop(&s);
}

static void a_stream_that_breaks_a_rule_is_not_tried_again(void **state)
{
	static const struct {
		enum scripted_fault first, second;
	} cases[] = {
		{SCRIPTED_OVERLAP, SCRIPTED_RIGHT}, {SCRIPTED_GARBAGE, SCRIPTED_RIGHT},
		{SCRIPTED_RIGHT, SCRIPTED_TYPE},    {SCRIPTED_RIGHT, SCRIPTED_CAPACITY},
		{SCRIPTED_RIGHT, SCRIPTED_OVERLAP},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct scripted_step steps[] = {
			{.messages = 2, .code = CAIRN_UNAVAILABLE, .fault = cases[i].first},
			{.messages = MAX_MESSAGES, .fault = cases[i].second},
		};
		struct scene s;

		scene_plain(&s, steps, 2);
		if (scene_list(&s) != CAIRN_CLIENT_INTERNAL)
			fail_msg("case %zu", i);
		assert_int_equal(s.seen.blocks, cases[i].first == SCRIPTED_RIGHT ? 20 : 0);
		scene_stop(&s);
	}
}

static void write_token(struct scene *s, const char *token)
{
	FILE *file = fopen(s->token_file, "w");

	assert_non_null(file);
	assert_true(fputs(token, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void on_retry_renew(void *arg, const struct cairn_client_error *why, uint64_t wait_ms)
{
	struct scene *s = arg;

	on_retry(arg, why, wait_ms);
	assert_null(strstr(why->message, "secret"));
	write_token(s, "secret-2\n");
}

static void a_token_that_ran_out_is_replaced_in_the_middle(void **state)
{
	const struct scripted_step steps[] = {
		{.messages = 5, .code = CAIRN_UNAVAILABLE, .token = "secret-1"},
		{.messages = 5, .code = CAIRN_UNAVAILABLE, .token = "secret-2"},
		{.messages = MAX_MESSAGES, .token = "secret-2"},
	};
	const struct scripted_step expired[] = {
		{.messages = 5, .code = CAIRN_UNAUTHENTICATED, .token = "secret-1"},
		{.messages = MAX_MESSAGES, .token = "secret-2"},
	};
	struct scene s;

	(void)state;
	scene_start(&s, false, steps, ARRAY_LEN(steps));
	s.query.on_retry = on_retry_renew;
	write_token(&s, "secret-1\n");
	scene_client(&s, (struct cairn_client_options){.token_file = s.token_file});
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.blocks, s.service.blocks);
	scene_stop(&s);

	scene_start(&s, false, expired, ARRAY_LEN(expired));
	s.query.on_retry = on_retry_renew;
	write_token(&s, "secret-1\n");
	scene_client(&s, (struct cairn_client_options){.token_file = s.token_file});
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.blocks, s.service.blocks);
	assert_int_equal(s.retries, 1);
	scene_stop(&s);
}

static void a_wrong_token_ends_it_without_more_tries_than_one(void **state)
{
	const struct scripted_step steps[] = {{.messages = MAX_MESSAGES, .token = "right"}};
	struct scene s;

	(void)state;
	scene_plain(&s, steps, 1); /* as text: no other can be had */
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_UNAUTHENTICATED);
	assert_int_equal(s.service.streams, 1);
	scene_stop(&s);

	scene_start(&s, false, steps, 1);
	write_token(&s, "wrong");
	scene_client(&s, (struct cairn_client_options){.token_file = s.token_file});
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_UNAUTHENTICATED);
	assert_int_equal(s.service.streams, 2);
	scene_stop(&s);
}

struct giver {
	unsigned calls;
	int code;
};

static int give_token(void *arg, const char *audience, char *token, size_t size)
{
	struct giver *giver = arg;

	assert_string_equal(audience, "aud");
	snprintf(token, size, "secret-%u", ++giver->calls);
	return giver->code;
}

static void the_application_may_give_tokens_itself(void **state)
{
	const struct scripted_step steps[] = {
		{.messages = 1, .code = CAIRN_UNAVAILABLE, .token = "secret-1"},
		{.messages = MAX_MESSAGES, .token = "secret-2"},
	};
	struct giver giver = {0};
	struct scene s;

	(void)state;
	scene_start(&s, false, steps, 2);
	scene_client(&s, (struct cairn_client_options){
				 .token_fn = give_token, .token_arg = &giver, .audience = "aud"});
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(giver.calls, 2);
	giver.code = CAIRN_CLIENT_PERMISSION_DENIED;
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_PERMISSION_DENIED);
	scene_stop(&s);
}

static void it_falls_back_to_allocated_blocks_only_when_told_and_before_the_first(void **state)
{
	static const struct {
		int code;
		uint64_t messages;
		bool told, falls;
	} cases[] = {
		{CAIRN_PRECONDITION, 0, true, true},   {CAIRN_NOT_FOUND, 0, true, true},
		{CAIRN_UNIMPLEMENTED, 0, true, true},  {CAIRN_INVALID, 0, true, true},
		{CAIRN_PRECONDITION, 0, false, false}, {CAIRN_DENIED, 0, true, false},
		{CAIRN_PRECONDITION, 3, true, false},  {CAIRN_RANGE, 0, true, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct scripted_step steps[] = {
			{.messages = cases[i].messages, .code = cases[i].code},
			{.messages = MAX_MESSAGES},
		};
		struct scene s;

		scene_plain(&s, steps, 2);
		s.query.base_id = "gone";
		s.query.fall_back = cases[i].told;
		if (scene_list(&s) != (cases[i].falls ? 0 : cases[i].code))
			fail_msg("case %zu: %s", i, s.seen.error.message);
		assert_int_equal(s.seen.info.fell_back, cases[i].falls);
		assert_int_equal(s.seen.info.kind,
				 cases[i].falls ? CAIRN_LISTING_ALLOCATED : CAIRN_LISTING_CHANGED);
		assert_int_equal(s.seen.blocks,
				 cases[i].falls ? s.service.blocks : cases[i].messages * 10);
		if (cases[i].falls)
			assert_false(s.service.deltas[1]);
		scene_stop(&s);
	}
}

static void a_stream_that_breaks_after_the_last_possible_block_is_complete(void **state)
{
	const struct scripted_step steps[] = {
		{.messages = MAX_MESSAGES, .code = CAIRN_UNAVAILABLE}};
	struct scene s;

	(void)state;
	scene_start(&s, false, steps, 1);
	s.service.length = s.service.stride; /* up to the capacity */
	scene_client(&s, (struct cairn_client_options){0});
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.info.streams, 1);
	scene_stop(&s);
}

static void an_empty_listing_tells_the_capacity(void **state)
{
	struct scene s;

	(void)state;
	scene_start(&s, false, NULL, 0);
	s.service.announce = true;
	scene_client(&s, (struct cairn_client_options){0});
	s.query.starting_offset = scripted_service_capacity(&s.service);
	assert_int_equal(scene_list(&s), 0);
	assert_int_equal(s.seen.info.messages, 1);
	assert_int_equal(s.seen.info.capacity, s.query.starting_offset);
	s.query.starting_offset++;
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_OUT_OF_RANGE);
	scene_stop(&s);
}

static void *cancel_soon(void *arg)
{
	cairn_sleep_ms(50);
	cairn_listing_cancel(arg);
	return NULL;
}

static void a_cancel_ends_a_wait_for_the_service_and_a_pause(void **state)
{
	const struct scripted_step hang[] = {{.fault = SCRIPTED_HANG}};
	const struct scripted_step fail[] = {{.code = CAIRN_UNAVAILABLE}};
	const struct scripted_step *const scripts[] = {hang, fail};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene s;
		struct cairn_listing *listing;
		struct cairn_client_error error;
		const struct cairn_block *blocks;
		pthread_t thread;
		size_t n;

		scene_plain(&s, scripts[i], 1);
		s.query.patience_ms = UINT64_MAX;
		assert_int_equal(cairn_listing_new(s.client, &s.query, &listing, &error), 0);
		assert_int_equal(pthread_create(&thread, NULL, cancel_soon, listing), 0);
		assert_int_equal(cairn_listing_next(listing, &blocks, &n, &error),
				 CAIRN_CLIENT_CANCELLED);
		pthread_join(thread, NULL);
		cairn_listing_free(listing);
		scene_stop(&s);
	}
}

static int stop_at_seven(void *arg, const struct cairn_block *block)
{
	unsigned *count = arg;

	(void)block;
	return ++*count == 7 ? 77 : 0;
}

static void a_function_may_take_the_blocks_and_stop(void **state)
{
	struct scene s;
	struct cairn_listing *listing;
	struct cairn_client_error error;
	unsigned count = 0;

	(void)state;
	scene_plain(&s, NULL, 0);
	assert_int_equal(cairn_listing_new(s.client, &s.query, &listing, &error), 0);
	assert_int_equal(cairn_listing_each(listing, stop_at_seven, &count, &error), 77);
	assert_int_equal(count, 7);
	cairn_listing_free(listing);
	assert_int_equal(cairn_listing_new(s.client, &s.query, &listing, &error), 0);
	count = 100;
	assert_int_equal(cairn_listing_each(listing, stop_at_seven, &count, &error), 0);
	assert_int_equal(count, 100 + s.service.blocks);
	cairn_listing_free(listing);
	scene_stop(&s);
}

struct worker {
	struct scene *scene;
	pthread_t thread;
	int rc;
	uint64_t blocks;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct cairn_listing_query query = question(w->scene);
	struct seen seen;

	query.on_retry = NULL;
	w->rc = list(w->scene, &query, &seen);
	w->blocks = seen.blocks;
	return NULL;
}

static void one_client_serves_many_threads(void **state)
{
	const struct scripted_step steps[] = {
		{.messages = 10, .code = CAIRN_UNAVAILABLE},
		{.messages = 20, .code = CAIRN_INTERNAL},
		{.messages = 1, .code = CAIRN_UNAVAILABLE},
		{.messages = 40, .code = CAIRN_ABORTED},
		{.messages = 90, .code = CAIRN_UNAVAILABLE},
		{.messages = 3, .code = CAIRN_DEADLINE},
		{.messages = MAX_MESSAGES},
	};
	struct worker workers[8];
	struct scene s;

	(void)state;
	scene_start(&s, true, steps, ARRAY_LEN(steps));
	scene_client(&s, (struct cairn_client_options){.ca_file = s.ca,
						       .server_name = "service.example"});
	for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
		workers[i] = (struct worker){.scene = &s};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].rc, 0);
		assert_int_equal(workers[i].blocks, s.service.blocks);
	}
	scene_stop(&s);
}

static void a_certificate_of_another_name_is_refused(void **state)
{
	struct scene s;

	(void)state;
	scene_start(&s, true, NULL, 0);
	s.query.no_retry = true;
	scene_client(&s, (struct cairn_client_options){.ca_file = s.ca});
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_UNAVAILABLE);
	assert_int_equal(s.service.streams, 0);
	scene_stop(&s);
}

static void questions_and_options_that_make_no_sense_are_refused(void **state)
{
	struct cairn_client_options options = {.size = sizeof(options), .token = "t"};
	struct cairn_client_error error;
	struct cairn_client *client;
	struct cairn_listing *listing;
	struct scene s;
	struct {
		struct cairn_listing_query query;
		uint64_t from_a_later_version;
	} later = {.query = question(&s)};
	struct cairn_listing_query query = question(&s);

	(void)state;
	scene_start(&s, false, NULL, 0);
	options.address = s.address;
	options.service_account = "sa";
	assert_int_equal(cairn_client_new(&options, &client, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	options.size = 0;
	assert_int_equal(cairn_client_new(&options, &client, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	assert_int_equal(cairn_client_new(NULL, &client, NULL), CAIRN_CLIENT_INVALID_ARGUMENT);
	scene_client(&s, (struct cairn_client_options){0});

	query.snapshot = "";
	assert_int_equal(cairn_listing_new(s.client, &query, &listing, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	query = question(&s);
	query.namespace_name = NULL;
	assert_int_equal(cairn_listing_new(s.client, &query, &listing, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	query = question(&s);
	query.starting_offset = 1ULL << 63;
	assert_int_equal(cairn_listing_new(s.client, &query, &listing, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	query = question(&s);
	query.max_results = 1U << 31;
	assert_int_equal(cairn_listing_new(s.client, &query, &listing, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);

	later.query.size = sizeof(later);
	assert_int_equal(cairn_listing_new(s.client, &later.query, &listing, &error), 0);
	cairn_listing_free(listing);
	later.from_a_later_version = 1;
	assert_int_equal(cairn_listing_new(s.client, &later.query, &listing, &error),
			 CAIRN_CLIENT_INVALID_ARGUMENT);
	scene_stop(&s);
}

static void a_base_by_name_needs_kubernetes(void **state)
{
	struct scene s;

	(void)state;
	scene_plain(&s, NULL, 0);
	s.query.base_snapshot = "yesterday";
	assert_int_equal(scene_list(&s), CAIRN_CLIENT_INVALID_ARGUMENT);
	assert_int_equal(s.service.streams, 0);
	scene_stop(&s);
}

static void any_allocation_that_fails_is_an_error_and_nothing_leaks(void **state)
{
	struct scene s;
	struct cairn_client_options options = {.size = sizeof(options), .token = "t"};
	bool failed = true;

	(void)state;
	scene_start(&s, false, NULL, 0);
	options.address = s.address;
	s.query.no_retry = true;
	/* The library's part: making both; a stream shares its allocations with
	 * other threads. */
	for (size_t n = 1; failed && n < 200; n++) {
		struct cairn_client *client = NULL;
		struct cairn_listing *listing = NULL;
		struct cairn_client_error error;

		cairn_mem_fail_at(n, 0);
		failed = cairn_client_new(&options, &client, &error) < 0 ||
			 cairn_listing_new(client, &s.query, &listing, &error) < 0;
		cairn_mem_fail_at(0, 0);
		if (failed)
			assert_int_equal(error.code, CAIRN_CLIENT_RESOURCE_EXHAUSTED);
		cairn_listing_free(listing);
		cairn_client_free(client);
	}
	assert_false(failed);
	scene_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listing_comes_whole_and_in_order),
		cmocka_unit_test(a_base_makes_it_a_listing_of_changes),
		cmocka_unit_test(a_broken_stream_is_taken_up_where_it_broke),
		cmocka_unit_test(a_failure_that_does_not_pass_ends_the_listing),
		cmocka_unit_test(patience_ends_and_no_retry_means_none),
		cmocka_unit_test(a_service_that_only_announces_itself_uses_up_patience),
		cmocka_unit_test(a_stream_that_breaks_a_rule_is_not_tried_again),
		cmocka_unit_test(a_token_that_ran_out_is_replaced_in_the_middle),
		cmocka_unit_test(a_wrong_token_ends_it_without_more_tries_than_one),
		cmocka_unit_test(the_application_may_give_tokens_itself),
		cmocka_unit_test(
			it_falls_back_to_allocated_blocks_only_when_told_and_before_the_first),
		cmocka_unit_test(a_stream_that_breaks_after_the_last_possible_block_is_complete),
		cmocka_unit_test(an_empty_listing_tells_the_capacity),
		cmocka_unit_test(a_cancel_ends_a_wait_for_the_service_and_a_pause),
		cmocka_unit_test(a_function_may_take_the_blocks_and_stop),
		cmocka_unit_test(one_client_serves_many_threads),
		cmocka_unit_test(a_certificate_of_another_name_is_refused),
		cmocka_unit_test(questions_and_options_that_make_no_sense_are_refused),
		cmocka_unit_test(a_base_by_name_needs_kubernetes),
		cmocka_unit_test(any_allocation_that_fails_is_an_error_and_nothing_leaks),
	};

	return cmocka_run_group_tests_name("client/listing", tests, NULL, NULL);
}
