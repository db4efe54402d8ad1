/* SPDX-License-Identifier: Apache-2.0 */

/* Against a reviewer that the test plays. */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/digest.h"
#include "kube/kube_wait.h"
#include "kube/user.h"
#include "kube/value.h"

#define FOREVER 1000000000U
#define FLOOD   40U

struct reviewer {
	_Atomic unsigned inside; /* questions of the flood that are being answered */
	_Atomic unsigned asked;
	_Atomic bool open; /* they get their answers */
	_Atomic int fail;
};

static int review_token(void *self, const char *token, const char *audience,
			const struct kube_wait *wait, json_t **ret_user, struct cairn_err *err)
{
	struct reviewer *r = self;

	(void)audience;
	(void)wait;
	atomic_fetch_add(&r->asked, 1);
	if (atomic_load(&r->fail))
		return cairn_err_set(err, atomic_load(&r->fail), "made to fail");
	if (strncmp(token, "flood", 5) == 0) {
		atomic_fetch_add(&r->inside, 1);
		while (!atomic_load(&r->open))
			cairn_sleep_ms(1);
		atomic_fetch_sub(&r->inside, 1);
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "bad");
	}
	*ret_user = json_pack("{s:s}", "username", "ann");
	return 0;
}

static int review_access(void *self, const json_t *user, const struct kube_access *what,
			 const struct kube_wait *wait, struct kube_access_answer *ret,
			 struct cairn_err *err)
{
	struct reviewer *r = self;

	(void)user;
	(void)wait;
	atomic_fetch_add(&r->asked, 1);
	if (atomic_load(&r->fail))
		return cairn_err_set(err, atomic_load(&r->fail), "made to fail");
	ret->allowed = strcmp(what->name, "mine") == 0;
	return 0;
}

static const struct kube_reviewer_ops ops = {
	.review_token = review_token,
	.review_access = review_access,
};

static struct kube_authz_cache *start(struct reviewer *r)
{
	const struct kube_authz_cache_options options = {
		.reviewer = {.ops = &ops, .self = r},
		.keep_ms = FOREVER,
		.refusal_ms = FOREVER,
		.turns = true,
	};
	struct kube_authz_cache *guard = NULL;
	struct cairn_err err = {0};

	assert_ok(kube_authz_cache_new(&options, &guard, &err), &err);
	return guard;
}

struct caller {
	struct kube_authz_cache *guard;
	const struct kube_digest *origin;
	char token[32];
	int rc;
};

static void *call(void *arg)
{
	struct caller *c = arg;
	struct kube_wait wait = {.deadline_ns = UINT64_MAX, .origin = c->origin};
	kube_auto_value struct kube_user *user = NULL;

	c->rc = kube_authz_cache_user(c->guard, c->token, NULL, &wait, &user, NULL);
	return NULL;
}

static void one_address_does_not_take_all_questions(void **state)
{
	struct kube_digest bad = kube_digest_of("address", "bad", NULL);
	struct kube_digest good = kube_digest_of("address", "good", NULL);
	struct reviewer r = {0};
	struct kube_authz_cache *guard = start(&r);
	struct caller flood[FLOOD];
	struct caller calm = {.guard = guard, .origin = &good, .token = "good"};
	pthread_t threads[FLOOD];
	unsigned taken;

	(void)state;
	for (unsigned i = 0; i < FLOOD; i++) {
		flood[i] = (struct caller){.guard = guard, .origin = &bad};
		snprintf(flood[i].token, sizeof(flood[i].token), "flood-%u", i);
		assert_int_equal(pthread_create(&threads[i], NULL, call, &flood[i]), 0);
	}
	while (atomic_load(&r.inside) < 16)
		cairn_sleep_ms(1);
	call(&calm); /* returns, though nobody of the flood has an answer yet */
	taken = atomic_load(&r.inside);
	atomic_store(&r.open, true);
	for (unsigned i = 0; i < FLOOD; i++)
		pthread_join(threads[i], NULL);
	kube_authz_cache_free(guard);
	assert_int_equal(calm.rc, 0);
	assert_int_equal(taken, 16);
	for (unsigned i = 0; i < FLOOD; i++)
		assert_int_equal(flood[i].rc, CAIRN_UNAUTHENTICATED);
}

static void what_can_be_no_token_is_not_asked_about(void **state)
{
	static char long_text[KUBE_GUARD_TOKEN_MAX + 2];
	const char *const bad[] = {NULL, "", "\xff\xfe", "a\xc3", long_text};
	struct kube_wait wait = {.deadline_ns = UINT64_MAX};
	struct reviewer r = {0};
	struct kube_authz_cache *guard = start(&r);

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct kube_user *user = NULL;

		assert_code(kube_authz_cache_user(guard, bad[i], NULL, &wait, &user, NULL),
			    CAIRN_UNAUTHENTICATED);
	}
	assert_int_equal(atomic_load(&r.asked), 0);
	kube_authz_cache_free(guard);
}

static void what_could_not_be_asked_is_not_remembered(void **state)
{
	static const struct {
		int fails, code;
	} cases[] = {
		{CAIRN_UNAVAILABLE, CAIRN_UNAVAILABLE},
		{CAIRN_DENIED, CAIRN_INTERNAL},   /* we may not ask */
		{CAIRN_INTERNAL, CAIRN_INTERNAL}, /* our own credentials */
	};
	struct kube_wait wait = {.deadline_ns = UINT64_MAX};
	kube_auto_value struct kube_user *user = NULL;
	struct reviewer r = {0};
	struct kube_authz_cache *guard = start(&r);
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_authz_cache_user(guard, "good", NULL, &wait, &user, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		atomic_store(&r.fail, cases[i].fails);
		assert_code(kube_authz_cache_may_read(guard, user, "ns", "mine", &wait, NULL),
			    cases[i].code);
	}
	atomic_store(&r.fail, 0);
	assert_ok(kube_authz_cache_may_read(guard, user, "ns", "mine", &wait, &err), &err);
	assert_code(kube_authz_cache_may_read(guard, user, "ns", "other", &wait, NULL),
		    CAIRN_DENIED);
	kube_value_unref(&user->value);
	user = NULL;
	kube_authz_cache_free(guard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_address_does_not_take_all_questions),
		cmocka_unit_test(what_can_be_no_token_is_not_asked_about),
		cmocka_unit_test(what_could_not_be_asked_is_not_remembered),
	};

	return cmocka_run_group_tests_name("kube/authz_cache", tests, NULL, NULL);
}
