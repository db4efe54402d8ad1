/* SPDX-License-Identifier: Apache-2.0 */

#include "base/ticker.h"

#include <stdatomic.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/wait.h"
#include "cairntest.h"

#define LONG_MS 1000000000U

struct counted {
	struct cairn_ticker ticker;
	atomic_uint ticks;
	uint64_t again_ms;
};

static uint64_t count(void *arg)
{
	struct counted *c = arg;

	atomic_fetch_add(&c->ticks, 1);
	return c->again_ms;
}

static void wait_for(struct counted *c, unsigned ticks)
{
	while (atomic_load(&c->ticks) < ticks)
		cairn_sleep_ms(1);
}

static void it_ticks_again_when_the_tick_says_or_someone_hurries(void **state)
{
	struct counted often = {.again_ms = 0}, once = {.again_ms = LONG_MS};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(cairn_ticker_start(&often.ticker, "often", 0, count, &often, &err), &err);
	assert_ok(cairn_ticker_start(&once.ticker, "once", LONG_MS, count, &once, &err), &err);
	wait_for(&often, 3);
	assert_int_equal(atomic_load(&once.ticks), 0);
	cairn_ticker_hurry(&once.ticker);
	wait_for(&once, 1);
	assert_false(cairn_ticker_stopping(&once.ticker));
	cairn_ticker_stop(&often.ticker);
	cairn_ticker_stop(&once.ticker); /* does not wait for the time */
	assert_int_equal(atomic_load(&once.ticks), 1);
	cairn_ticker_stop(&once.ticker); /* a second time does nothing */
}

static void a_wait_ends_at_its_time_or_never(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	uint64_t before = cairn_monotonic_ns();

	(void)state;
	assert_true(cairn_after_ms(1) >= before + CAIRN_NS_PER_MS);
	assert_int_equal(cairn_after_ms(UINT64_MAX), UINT64_MAX);
	assert_int_equal(cairn_after_ms(UINT64_MAX / CAIRN_NS_PER_MS), UINT64_MAX);
	cairn_cond_init(&cond);
	pthread_mutex_lock(&lock);
	while (cairn_cond_wait_until(&cond, &lock, before + 1))
		; /* woken for no reason */
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&cond);
}

static void pauses_double_to_the_most_and_vary_by_half(void **state)
{
	struct cairn_backoff backoff = {.first_ms = 100, .most_ms = 1000};
	static const uint64_t full[] = {100, 200, 400, 800, 1000, 1000};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(full); i++) {
		assert_int_equal(cairn_backoff_ms(&backoff, 0), full[i] / 2);
		assert_int_equal(cairn_backoff_ms(&backoff, UINT32_MAX), full[i]);
		assert_in_range(cairn_backoff_next(&backoff), full[i] / 2, full[i]);
		assert_in_range(cairn_jitter_ms(full[i]), full[i] / 2, full[i]);
	}
	cairn_backoff_reset(&backoff);
	assert_int_equal(cairn_backoff_ms(&backoff, UINT32_MAX), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ticks_again_when_the_tick_says_or_someone_hurries),
		cmocka_unit_test(a_wait_ends_at_its_time_or_never),
		cmocka_unit_test(pauses_double_to_the_most_and_vary_by_half),
	};

	return cmocka_run_group_tests_name("base/ticker", tests, NULL, NULL);
}
