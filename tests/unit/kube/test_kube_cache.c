/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/digest.h"
#include "kube/kube_cache.h"
#include "kube/kube_wait.h"
#include "kube/value.h"

static _Atomic uint64_t clock_ns;
static _Atomic unsigned alive; /* values that were not freed */

static uint64_t made_up_now(void)
{
	return clock_ns;
}

struct number {
	struct kube_value value;
	unsigned n;
};

static void destroy(struct kube_value *value)
{
	alive--;
	free(value);
}

/* What is asked: how often, and what comes of it. */
struct source {
	_Atomic unsigned asked;
	_Atomic int fail;
	_Atomic unsigned delay_ms;
	uint64_t lower_until; /* 0: as it comes */
};

static int ask(void *arg, const struct kube_wait *wait, struct kube_value **ret, uint64_t *until_ns,
	       struct cairn_err *err)
{
	struct source *source = arg;
	unsigned n = ++source->asked;
	struct number *number;

	for (unsigned ms = 0; ms < source->delay_ms; ms += 2) {
		int rc = kube_wait_check(wait, err);

		if (rc)
			return rc;
		cairn_sleep_ms(2);
	}
	if (source->fail)
		return cairn_err_set(err, source->fail, "answer %u", n);
	number = cairn_calloc(1, sizeof(*number));
	kube_value_init(&number->value, destroy);
	alive++;
	number->n = n;
	if (source->lower_until)
		*until_ns = source->lower_until;
	*ret = &number->value;
	return 0;
}

static const struct kube_wait patience = {.deadline_ns = UINT64_MAX};

static struct kube_cache *make(size_t entries, uint64_t keep_ms)
{
	struct kube_cache_options options = {.entries_max = entries,
					     .keep_ms = keep_ms,
					     .refusal_ms = keep_ms / 5,
					     .now = made_up_now};
	struct kube_cache *cache = NULL;
	struct cairn_err err = {0};

	clock_ns = 1000 * CAIRN_NS_PER_SEC;
	assert_ok(kube_cache_new(&options, &cache, &err), &err);
	return cache;
}

/* The number that the cache gives for a key, or its failure. */
static int get(struct kube_cache *cache, const char *name, struct source *source)
{
	struct kube_digest key = kube_digest_of(name, NULL);
	struct kube_value *value = NULL;
	struct cairn_err err = {0};
	int rc = kube_cache_get(cache, &key, ask, source, &patience, &value, &err);

	if (rc) {
		assert_int_equal(err.code, rc);
		return rc;
	}
	rc = (int)((struct number *)value)->n;
	kube_value_unref(value);
	return rc;
}

static void pass_ms(uint64_t ms)
{
	clock_ns += ms * CAIRN_NS_PER_MS;
}

static void an_answer_is_given_again_until_its_time_is_over(void **state)
{
	struct kube_cache *cache = make(16, 1000);
	struct source source = {0};

	(void)state;
	assert_int_equal(get(cache, "a", &source), 1);
	pass_ms(999);
	assert_int_equal(get(cache, "a", &source), 1);
	assert_int_equal(get(cache, "b", &source), 2);
	pass_ms(1);
	assert_int_equal(get(cache, "a", &source), 3);
	kube_cache_free(cache);
	assert_int_equal(alive, 0);
}

static void a_refusal_is_kept_for_a_shorter_time(void **state)
{
	static const int codes[] = {CAIRN_NOT_FOUND, CAIRN_DENIED, CAIRN_UNAUTHENTICATED,
				    CAIRN_INVALID, CAIRN_PRECONDITION};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct kube_cache *cache = make(16, 1000);
		struct source source = {.fail = codes[i]};

		assert_int_equal(get(cache, "a", &source), codes[i]);
		pass_ms(199);
		assert_int_equal(get(cache, "a", &source), codes[i]);
		assert_int_equal(source.asked, 1);
		pass_ms(1);
		source.fail = 0;
		assert_int_equal(get(cache, "a", &source), 2);
		kube_cache_free(cache);
	}
}

static void a_failure_that_is_no_answer_is_not_kept(void **state)
{
	static const int codes[] = {CAIRN_UNAVAILABLE, CAIRN_INTERNAL, CAIRN_NO_SPACE,
				    CAIRN_CANCELLED, CAIRN_DEADLINE};
	struct kube_cache *cache = make(16, 1000);
	struct kube_cache_stats stats;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		struct source source = {.fail = codes[i]};

		assert_int_equal(get(cache, "a", &source), codes[i]);
		assert_int_equal(get(cache, "a", &source), codes[i]);
		assert_int_equal(source.asked, 2);
	}
	kube_cache_stats(cache, &stats);
	assert_int_equal(stats.entries, 0);
	kube_cache_free(cache);
}

static void an_answer_may_end_sooner_than_usual(void **state)
{
	struct kube_cache *cache = make(16, 1000);
	struct source source = {.lower_until = clock_ns + 10 * CAIRN_NS_PER_MS};

	(void)state;
	assert_int_equal(get(cache, "a", &source), 1);
	pass_ms(9);
	assert_int_equal(get(cache, "a", &source), 1);
	pass_ms(1);
	source.lower_until = 0;
	assert_int_equal(get(cache, "a", &source), 2);
	kube_cache_free(cache);
}

static void a_time_of_nothing_keeps_nothing(void **state)
{
	struct kube_cache *cache = make(16, 0);
	struct source source = {0};

	(void)state;
	assert_int_equal(get(cache, "a", &source), 1);
	assert_int_equal(get(cache, "a", &source), 2);
	source.fail = CAIRN_NOT_FOUND;
	assert_int_equal(get(cache, "a", &source), CAIRN_NOT_FOUND);
	assert_int_equal(source.asked, 3);
	assert_int_equal(alive, 0);
	kube_cache_free(cache);
}

static void a_full_cache_drops_refusals_first_then_the_oldest(void **state)
{
	struct kube_cache *cache = make(4, 1000);
	struct source yes = {0}, no = {.fail = CAIRN_UNAUTHENTICATED};
	struct kube_cache_stats stats;
	char name[16];

	(void)state;
	assert_int_equal(get(cache, "good", &yes), 1);
	for (int i = 0; i < 100; i++) { /* a flood of bad tokens */
		snprintf(name, sizeof(name), "bad%d", i);
		assert_int_equal(get(cache, name, &no), CAIRN_UNAUTHENTICATED);
	}
	assert_int_equal(get(cache, "good", &yes), 1);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "new%d", i);
		assert_int_equal(get(cache, name, &yes), i + 2);
	}
	assert_int_equal(get(cache, "good", &yes), 6);
	kube_cache_stats(cache, &stats);
	assert_int_equal(stats.entries, 4);
	kube_cache_free(cache);
	assert_int_equal(alive, 0);
}

static void a_sweep_drops_what_has_expired(void **state)
{
	struct kube_cache *cache = make(16, 1000);
	struct source source = {0};
	struct kube_cache_stats stats;

	(void)state;
	get(cache, "a", &source);
	pass_ms(500);
	get(cache, "b", &source);
	pass_ms(500);
	kube_cache_sweep(cache);
	kube_cache_stats(cache, &stats);
	assert_int_equal(stats.entries, 1);
	assert_int_equal(alive, 1);
	kube_cache_free(cache);
}

/* --- several at once --- */

struct asker {
	struct kube_cache *cache;
	struct source *source;
	struct kube_wait wait;
	_Atomic int gone;   /* the caller left */
	_Atomic bool waits; /* for an answer, its own or another's */
	int rc;
	unsigned n;
	pthread_t thread;
};

static int is_gone(const void *arg)
{
	struct asker *asker = (struct asker *)(uintptr_t)arg;

	asker->waits = true;
	return asker->gone;
}

static void *ask_on_thread(void *arg)
{
	struct asker *asker = arg;
	struct kube_digest key = kube_digest_of("k", NULL);
	struct kube_value *value = NULL;
	struct cairn_err err = {0};

	asker->rc =
		kube_cache_get(asker->cache, &key, ask, asker->source, &asker->wait, &value, &err);
	asker->n = asker->rc == 0 ? ((struct number *)value)->n : 0;
	kube_value_unref(value);
	return NULL;
}

static void begin(struct asker *asker, struct kube_cache *cache, struct source *source)
{
	*asker = (struct asker){.cache = cache, .source = source};
	asker->wait = (struct kube_wait){.deadline_ns = UINT64_MAX, .check = is_gone, .arg = asker};
	assert_int_equal(pthread_create(&asker->thread, NULL, ask_on_thread, asker), 0);
}

static void wait_until_asked(struct source *source, unsigned n)
{
	for (int i = 0; i < 12000 && source->asked < n; i++)
		cairn_sleep_ms(5);
	assert_int_equal(source->asked, n);
}

static void wait_until_it_waits(struct asker *asker)
{
	for (int i = 0; i < 12000 && !asker->waits; i++)
		cairn_sleep_ms(5);
	assert_true(asker->waits);
}

static void those_who_come_at_once_share_one_question(void **state)
{
	static const int codes[] = {0, CAIRN_UNAVAILABLE, CAIRN_NOT_FOUND};

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(codes); c++) {
		struct kube_cache *cache = make(16, 0);
		struct source source = {.delay_ms = 1000000, .fail = codes[c]};
		struct asker askers[8];

		for (size_t i = 0; i < ARRAY_LEN(askers); i++)
			begin(&askers[i], cache, &source);
		for (size_t i = 0; i < ARRAY_LEN(askers); i++)
			wait_until_it_waits(&askers[i]);
		source.delay_ms = 0;
		for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
			pthread_join(askers[i].thread, NULL);
			assert_int_equal(askers[i].rc, codes[c]);
		}
		assert_int_equal(source.asked, 1);
		kube_cache_free(cache);
		assert_int_equal(alive, 0);
	}
}

/* The first asks a source that does not answer, and the second waits for the first. */
static void begin_both(struct asker *first, struct asker *second, struct kube_cache *cache,
		       struct source *source)
{
	source->delay_ms = 1000000;
	begin(first, cache, source);
	wait_until_asked(source, 1);
	begin(second, cache, source);
	wait_until_it_waits(second);
}

static void when_the_one_who_asks_gives_up_another_asks(void **state)
{
	struct kube_cache *cache = make(16, 1000);
	struct source source = {0};
	struct asker first, second;

	(void)state;
	begin_both(&first, &second, cache, &source);
	first.gone = CAIRN_CANCELLED;
	pthread_join(first.thread, NULL);
	assert_int_equal(first.rc, CAIRN_CANCELLED);
	wait_until_asked(&source, 2);
	source.delay_ms = 0;
	pthread_join(second.thread, NULL);
	assert_int_equal(second.rc, 0);
	assert_int_equal(second.n, 2);
	kube_cache_free(cache);
}

static void who_waits_for_anothers_question_may_give_up(void **state)
{
	struct source source = {0};
	struct asker first, second;
	struct kube_cache *cache = make(16, 1000);

	(void)state;
	begin_both(&first, &second, cache, &source);
	second.gone = CAIRN_DEADLINE;
	pthread_join(second.thread, NULL);
	assert_int_equal(second.rc, CAIRN_DEADLINE);
	source.delay_ms = 0;
	pthread_join(first.thread, NULL);
	assert_int_equal(first.rc, 0);
	kube_cache_free(cache);
}

static void keys_of_other_parts_differ(void **state)
{
	struct kube_digest a = kube_digest_of("a", "bc", NULL);
	struct kube_digest b = kube_digest_of("ab", "c", NULL);
	struct kube_digest c = kube_digest_of("a", "bc", NULL);
	struct kube_digest under = kube_digest_under(&a, "x", NULL);
	struct kube_digest other = kube_digest_under(&b, "x", NULL);

	(void)state;
	assert_false(kube_digest_equal(&a, &b));
	assert_true(kube_digest_equal(&a, &c));
	assert_false(kube_digest_equal(&under, &other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_given_again_until_its_time_is_over),
		cmocka_unit_test(a_refusal_is_kept_for_a_shorter_time),
		cmocka_unit_test(a_failure_that_is_no_answer_is_not_kept),
		cmocka_unit_test(an_answer_may_end_sooner_than_usual),
		cmocka_unit_test(a_time_of_nothing_keeps_nothing),
		cmocka_unit_test(a_full_cache_drops_refusals_first_then_the_oldest),
		cmocka_unit_test(a_sweep_drops_what_has_expired),
		cmocka_unit_test(those_who_come_at_once_share_one_question),
		cmocka_unit_test(when_the_one_who_asks_gives_up_another_asks),
		cmocka_unit_test(who_waits_for_anothers_question_may_give_up),
		cmocka_unit_test(keys_of_other_parts_differ),
	};

	return cmocka_run_group_tests_name("kube/cache", tests, NULL, NULL);
}
