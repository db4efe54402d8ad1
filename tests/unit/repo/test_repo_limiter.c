/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "repo/repo_limiter.h"

#define RATE    (1U << 20)
#define THREADS 3

static void without_a_limit_nothing_is_cut_or_waited_for(void **state)
{
	struct repo_limiter limiter;

	(void)state;
	repo_limiter_init(&limiter, 0);
	assert_int_equal(repo_limiter_slice(NULL, 1 << 20), 1 << 20);
	assert_int_equal(repo_limiter_slice(&limiter, 1 << 20), 1 << 20);
	assert_true(repo_limiter_wait(NULL, 1 << 20, NULL));
	assert_true(repo_limiter_wait(&limiter, SIZE_MAX, NULL));
}

static void slices_are_a_fiftieth_of_a_second(void **state)
{
	static const struct {
		uint64_t rate;
		size_t n, slice;
	} cases[] = {
		{50 * 4096, 1 << 20, 4096},
		{50 * 4096, 100, 100},
		{1, 1 << 20, REPO_LIMITER_SLICE_MIN},
		{UINT64_MAX, 1 << 20, REPO_LIMITER_SLICE_MAX},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_limiter limiter;

		repo_limiter_init(&limiter, cases[i].rate);
		assert_int_equal(repo_limiter_slice(&limiter, cases[i].n), cases[i].slice);
	}
}

struct shared {
	struct repo_limiter limiter;
	uint64_t begun_ns;
	atomic_ullong passed;
	atomic_bool burst;
};

/* At any time no more has passed than the rate allows, and a slice for each thread. */
static void *pass(void *arg)
{
	struct shared *shared = arg;
	size_t slice = repo_limiter_slice(&shared->limiter, 1 << 20);

	for (int i = 0; i < 8; i++) {
		uint64_t passed, spent;

		repo_limiter_wait(&shared->limiter, slice, NULL);
		passed = atomic_fetch_add(&shared->passed, slice);
		spent = cairn_monotonic_ns() - shared->begun_ns;
		if ((double)passed > (double)spent / 1e9 * RATE + THREADS * (double)slice)
			shared->burst = true;
	}
	return NULL;
}

static void threads_share_it_and_never_burst(void **state)
{
	struct shared shared = {.begun_ns = cairn_monotonic_ns()};
	pthread_t threads[THREADS];

	(void)state;
	repo_limiter_init(&shared.limiter, RATE);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_false(shared.burst);
}

static void an_idle_time_is_not_saved_up(void **state)
{
	struct repo_limiter limiter;
	size_t slice;
	uint64_t begun;

	(void)state;
	repo_limiter_init(&limiter, RATE);
	slice = repo_limiter_slice(&limiter, 1 << 20);
	assert_true(repo_limiter_wait(&limiter, slice, NULL));
	cairn_sleep_ms(100);
	begun = cairn_monotonic_ns();
	for (int i = 0; i < 4; i++)
		assert_true(repo_limiter_wait(&limiter, slice, NULL));
	assert_true((double)(cairn_monotonic_ns() - begun) >= 3.0 * (double)slice / RATE * 1e9);
}

static bool always(void)
{
	return true;
}

static void who_gives_up_does_not_wait(void **state)
{
	struct repo_limiter limiter;

	(void)state;
	repo_limiter_init(&limiter, 1);
	assert_true(repo_limiter_wait(&limiter, 512, NULL)); /* the next one in 512 s */
	assert_false(repo_limiter_wait(&limiter, 512, always));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_limit_nothing_is_cut_or_waited_for),
		cmocka_unit_test(slices_are_a_fiftieth_of_a_second),
		cmocka_unit_test(threads_share_it_and_never_burst),
		cmocka_unit_test(an_idle_time_is_not_saved_up),
		cmocka_unit_test(who_gives_up_does_not_wait),
	};

	return cmocka_run_group_tests_name("repo/limiter", tests, NULL, NULL);
}
