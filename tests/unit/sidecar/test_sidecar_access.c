/* SPDX-License-Identifier: Apache-2.0 */

/* Against a made-up Kubernetes (sidecar_world.h). */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/jwt.h"
#include "kube/user.h"
#include "kube/value.h"
#include "sidecar/access.h"
#include "sidecar/kube_gate.h"
#include "sidecar_world.h"

struct fixture {
	struct sidecar_world world;
	struct sidecar_access *access;
};

static void start(struct fixture *f, const char *audience, uint64_t keep_ms, uint64_t refusal_ms)
{
	struct sidecar_access_options options = {
		.audience = audience, .keep_ms = keep_ms, .refusal_ms = refusal_ms};
	struct cairn_err err = {0};

	world_init(&f->world);
	world_token(&f->world, "good", "aud", "ann");
	world_allow(&f->world, "ann", "ns", "*");
	options.kube = world_table(&f->world);
	assert_ok(sidecar_access_new(&options, &f->access, &err), &err);
}

static void stop(struct fixture *f)
{
	sidecar_access_free(f->access);
	world_done(&f->world);
}

/* Token and right in one, as a call has it checked. */
static int check(struct fixture *f, const char *token, const char *ns, const char *name,
		 struct cairn_err *err)
{
	kube_auto_value struct kube_user *user = NULL;
	int rc = sidecar_access_user(f->access, WORLD_DRIVER, token, &world_patience, &user, err);

	return rc ? rc : sidecar_access_check(f->access, user, ns, name, &world_patience, err);
}

#define FOREVER 1000000000U

static void a_good_token_with_a_right_is_let_in(void **state)
{
	kube_auto_value struct kube_user *user = NULL;
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, NULL, FOREVER, FOREVER);
	assert_ok(sidecar_access_user(f.access, WORLD_DRIVER, "good", &world_patience, &user, &err),
		  &err);
	assert_string_equal(user->name, "ann");
	assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	kube_value_unref(&user->value);
	user = NULL;
	stop(&f);
}

static void everything_else_gets_its_own_code_and_text(void **state)
{
	static const struct {
		const char *token, *ns;
		int fail;
		int code;
		const char *text;
	} cases[] = {
		{"bad", "ns", 0, CAIRN_UNAUTHENTICATED, "unauthenticated user"},
		{"other-audience", "ns", 0, CAIRN_UNAUTHENTICATED, "unauthenticated user"},
		{"good", "other", 0, CAIRN_DENIED,
		 "user does not have permissions to perform the operation: no rule"},
		{"good", "ns", CAIRN_UNAVAILABLE, CAIRN_UNAVAILABLE,
		 "failed to authenticate user: failed to find the SnapshotMetadataService CR for "
		 "driver 'driver.test': made to fail"},
		{"good", "ns", CAIRN_DENIED, CAIRN_INTERNAL,
		 "failed to authenticate user: failed to find the SnapshotMetadataService CR for "
		 "driver 'driver.test': made to fail"},
		{"good", "ns", CAIRN_UNAUTHENTICATED, CAIRN_INTERNAL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		struct fixture f;

		start(&f, NULL, FOREVER, FOREVER);
		world_token(&f.world, "other-audience", "elsewhere", "ann");
		f.world.fail = cases[i].fail;
		assert_int_equal(check(&f, cases[i].token, cases[i].ns, "snap", &err),
				 cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		if (cases[i].text)
			assert_string_equal(err.msg, cases[i].text);
		stop(&f);
	}
}

static void a_missing_service_is_internal_and_says_so(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, "", FOREVER, 0);
	world_remove(&f.world, "snapshotmetadataservices", NULL, WORLD_DRIVER);
	assert_code(check(&f, "good", "ns", "snap", &err), CAIRN_INTERNAL);
	assert_non_null(strstr(err.msg, "failed to find the SnapshotMetadataService CR"));
	world_put(&f.world, "snapshotmetadataservices", NULL, WORLD_DRIVER, "{'spec': {}}");
	assert_code(check(&f, "good", "ns", "snap", &err), CAIRN_INTERNAL);
	assert_non_null(strstr(err.msg, "has no audience"));
	stop(&f);
}

static void an_audience_that_is_given_is_not_asked_for(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, "mine", FOREVER, FOREVER);
	assert_code(check(&f, "good", "ns", "snap", &err), CAIRN_UNAUTHENTICATED);
	world_token(&f.world, "for-me", "mine", "ann");
	assert_ok(check(&f, "for-me", "ns", "snap", &err), &err);
	assert_int_equal(f.world.gets, 0);
	stop(&f);
}

static void answers_are_kept_by_token_user_and_name(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, NULL, FOREVER, FOREVER);
	for (int i = 0; i < 10; i++)
		assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	assert_int_equal(world_questions(&f.world), 3); /* service, token, right */
	assert_ok(check(&f, "good", "ns", "other", &err), &err);
	assert_int_equal(f.world.access_reviews, 2);
	world_token(&f.world, "good-too", "aud", "ann"); /* of the same user */
	assert_ok(check(&f, "good-too", "ns", "snap", &err), &err);
	assert_int_equal(f.world.token_reviews, 2);
	assert_int_equal(f.world.access_reviews, 2);
	world_token(&f.world, "bobs", "aud", "bob");
	assert_code(check(&f, "bobs", "ns", "snap", &err), CAIRN_DENIED);
	assert_code(check(&f, "bobs", "ns", "snap", &err), CAIRN_DENIED);
	assert_int_equal(f.world.access_reviews, 3);
	for (int i = 0; i < 10; i++)
		assert_code(check(&f, "bad", "ns", "snap", &err), CAIRN_UNAUTHENTICATED);
	assert_int_equal(f.world.token_reviews, 4);
	stop(&f);
}

static void a_right_that_was_taken_away_is_gone_when_its_time_is_over(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;
	uint64_t start_ns;

	(void)state;
	start(&f, NULL, 300, 0);
	assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	start_ns = cairn_monotonic_ns();
	world_forbid(&f.world, "ann", "ns", "*");
	while (check(&f, "good", "ns", "snap", &err) == 0) {
		assert_true(cairn_monotonic_ns() - start_ns < 60 * CAIRN_NS_PER_SEC);
		cairn_sleep_ms(10);
	}
	assert_int_equal(err.code, CAIRN_DENIED);
	world_allow(&f.world, "ann", "ns", "*");
	assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	world_forget_token(&f.world, "good");
	while (check(&f, "good", "ns", "snap", &err) == 0)
		cairn_sleep_ms(10);
	assert_int_equal(err.code, CAIRN_UNAUTHENTICATED);
	stop(&f);
}

static void a_right_may_be_for_one_snapshot_only(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, NULL, FOREVER, FOREVER);
	world_forbid(&f.world, "ann", "ns", "*");
	world_allow(&f.world, "ann", "ns", "mine");
	assert_ok(check(&f, "good", "ns", "mine", &err), &err);
	assert_code(check(&f, "good", "ns", "yours", &err), CAIRN_DENIED);
	stop(&f);
}

/* {"alg":"none"}.{"exp":N}. with N as given */
static void make_jwt(uint64_t expires, char out[256])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char payload[64];
	size_t n = (size_t)snprintf(payload, sizeof(payload), "{\"exp\":%llu}",
				    (unsigned long long)expires);
	size_t len = (size_t)snprintf(out, 256, "eyJhbGciOiJub25lIn0.");

	for (size_t i = 0; i < n; i += 3) {
		uint32_t bits = (uint32_t)(unsigned char)payload[i] << 16;
		size_t k = n - i < 3 ? n - i : 3;

		for (size_t j = 1; j < k; j++)
			bits |= (uint32_t)(unsigned char)payload[i + j] << (16 - 8 * j);
		for (size_t j = 0; j <= k; j++)
			out[len++] = letters[bits >> (18 - 6 * j) & 63];
	}
	snprintf(out + len, 256 - len, ".c2ln");
}

static void a_token_is_not_believed_past_its_own_end(void **state)
{
	uint64_t now = cairn_now_ns() / CAIRN_NS_PER_SEC;
	struct cairn_err err = {0};
	char token[256];
	struct fixture f;

	(void)state;
	start(&f, NULL, FOREVER, 0);
	make_jwt(now + 1000, token);
	world_token(&f.world, token, "aud", "ann");
	assert_ok(check(&f, token, "ns", "snap", &err), &err);
	assert_ok(check(&f, token, "ns", "snap", &err), &err);
	assert_int_equal(f.world.token_reviews, 1);
	make_jwt(now, token); /* the API server may still take it: clocks differ */
	world_token(&f.world, token, "aud", "ann");
	assert_ok(check(&f, token, "ns", "snap", &err), &err);
	assert_ok(check(&f, token, "ns", "snap", &err), &err);
	assert_int_equal(f.world.token_reviews, 3);
	stop(&f);
}

static void what_is_no_json_web_token_has_no_end(void **state)
{
	static const char *const texts[] = {
		"",
		".",
		"..",
		"a.b",
		"opaque",
		"a.!!!!.c",
		"a.e30.c",             /* {} */
		"a.W10.c",             /* [] */
		"a.eyJleHAiOi0xfQ.c",  /* {"exp":-1} */
		"a.eyJleHAiOiJ4In0.c", /* {"exp":"x"} */
	};
	uint64_t expires;
	char token[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_false(kube_jwt_expiry(texts[i], &expires));
	make_jwt(1234567890, token);
	assert_true(kube_jwt_expiry(token, &expires));
	assert_int_equal(expires, 1234567890);
}

static void an_api_server_that_is_away_is_asked_again_at_once(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, NULL, FOREVER, FOREVER);
	f.world.fail = CAIRN_UNAVAILABLE;
	assert_code(check(&f, "good", "ns", "snap", &err), CAIRN_UNAVAILABLE);
	f.world.fail = 0;
	assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	f.world.fail = CAIRN_UNAVAILABLE; /* what is known needs no server */
	assert_ok(check(&f, "good", "ns", "snap", &err), &err);
	assert_code(check(&f, "good", "ns", "new", &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "failed to authorize the user: "));
	stop(&f);
}

/* --- callers that share a question --- */

struct slow_caller {
	struct fixture *f;
	struct kube_wait wait;
	int rc;
};

static void *call_as_slow(void *arg)
{
	struct slow_caller *caller = arg;
	kube_auto_value struct kube_user *user = NULL;

	caller->rc = sidecar_access_user(caller->f->access, WORLD_DRIVER, "bad", &caller->wait,
					 &user, NULL);
	return NULL;
}

/* The audience is the same for all callers: the first one must not make the others wait in
 * the line of its address. */
static void the_audience_is_not_asked_for_in_the_line_of_one_address(void **state)
{
	const struct kube_fair_queue_options line = {
		.what = "questions", .total = 8, .each = 1, .waiting = 8, .waiting_each = 4};
	struct kube_digest flood = kube_digest_of("address", "flood", NULL);
	struct kube_digest calm = kube_digest_of("address", "calm", NULL);
	struct kube_wait patience = kube_wait_within(&world_patience, 120000);
	struct kube_fair_pass taken = {0};
	struct sidecar_kube_gate gate;
	struct sidecar_access_options options = {.keep_ms = FOREVER, .refusal_ms = FOREVER};
	struct slow_caller slow;
	kube_auto_value struct kube_user *user = NULL;
	struct cairn_err err = {0};
	struct fixture f;
	pthread_t thread;

	(void)state;
	start(&f, NULL, FOREVER, FOREVER);
	sidecar_access_free(f.access);
	gate = (struct sidecar_kube_gate){.behind = world_table(&f.world)};
	assert_ok(kube_fair_queue_new(&line, &gate.gate, &err), &err);
	options.kube = sidecar_kube_gate(&gate);
	assert_ok(sidecar_access_new(&options, &f.access, &err), &err);
	/* The flood has its one place, so its next question waits. */
	assert_ok(kube_fair_queue_enter(gate.gate, &flood, &patience, &taken, &err), &err);
	slow = (struct slow_caller){.f = &f, .wait = patience};
	slow.wait.origin = &flood;
	assert_int_equal(pthread_create(&thread, NULL, call_as_slow, &slow), 0);
	for (struct kube_fair_queue_stats stats = {0}; stats.waiting == 0;) {
		kube_fair_queue_stats(gate.gate, &stats);
		cairn_sleep_ms(1);
	}
	patience.origin = &calm;
	assert_ok(sidecar_access_user(f.access, WORLD_DRIVER, "good", &patience, &user, &err),
		  &err);
	kube_fair_queue_leave(&taken);
	pthread_join(thread, NULL);
	assert_int_equal(slow.rc, CAIRN_UNAUTHENTICATED);
	kube_value_unref(&user->value);
	user = NULL;
	stop(&f);
	kube_fair_queue_free(gate.gate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_audience_is_not_asked_for_in_the_line_of_one_address),
		cmocka_unit_test(a_good_token_with_a_right_is_let_in),
		cmocka_unit_test(everything_else_gets_its_own_code_and_text),
		cmocka_unit_test(a_missing_service_is_internal_and_says_so),
		cmocka_unit_test(an_audience_that_is_given_is_not_asked_for),
		cmocka_unit_test(answers_are_kept_by_token_user_and_name),
		cmocka_unit_test(a_right_that_was_taken_away_is_gone_when_its_time_is_over),
		cmocka_unit_test(a_right_may_be_for_one_snapshot_only),
		cmocka_unit_test(a_token_is_not_believed_past_its_own_end),
		cmocka_unit_test(what_is_no_json_web_token_has_no_end),
		cmocka_unit_test(an_api_server_that_is_away_is_asked_again_at_once),
	};

	return cmocka_run_group_tests_name("sidecar/access", tests, NULL, NULL);
}
