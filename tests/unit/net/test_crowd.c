/* SPDX-License-Identifier: Apache-2.0 */

/* Lanes of a crowd, on a loop and among threads. */

#include "cairntest.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "net/crowd.h"
#include "net/turns.h"

#define ENTRIES 40

struct seen {
	struct net_crowd crowd;
	struct net_crowd_entry entries[ENTRIES];
	unsigned order[ENTRIES], n;
	atomic_bool over;
};

static struct seen *world;

static void note(struct net_crowd_entry *entry)
{
	world->order[world->n++] = (unsigned)(entry - world->entries);
	if (world->n == ENTRIES - 1)
		atomic_store(&world->over, true);
}

/* The last one comes when all others wait, and one leaves. */
static void fill(void *arg)
{
	struct seen *seen = arg;

	for (unsigned i = 0; i < ENTRIES - 1; i++)
		net_crowd_add(&seen->crowd, &seen->entries[i], 3);
	net_crowd_add(&seen->crowd, &seen->entries[0], 5); /* waits already */
	net_crowd_remove(&seen->crowd, &seen->entries[ENTRIES - 2]);
	net_crowd_add(&seen->crowd, &seen->entries[ENTRIES - 1], 9);
}

static void another_lane_waits_for_one_piece_of_work(void **state)
{
	struct seen seen = {.n = 0};
	struct cairn_err err = {0};
	struct net_loop *loop;

	(void)state;
	world = &seen;
	assert_ok(net_loop_new("crowd", &loop, &err), &err);
	net_crowd_init(&seen.crowd, loop, note);
	net_loop_call(loop, fill, &seen);
	while (!atomic_load(&seen.over))
		cairn_sleep_ms(1);
	net_loop_free(loop);
	assert_int_equal(seen.n, ENTRIES - 1);
	assert_int_equal(seen.order[0], 0);
	assert_int_equal(seen.order[1], ENTRIES - 1);
	for (unsigned i = 2; i < ENTRIES - 1; i++)
		assert_int_equal(seen.order[i], i - 1);
}

struct worker {
	pthread_t thread;
	struct net_turns *turns;
	atomic_bool gone, waits, had;
	uint8_t lane;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	atomic_store(&w->waits, true);
	if (!net_turns_take(w->turns, w->lane, &w->gone))
		return NULL;
	atomic_store(&w->had, true);
	net_turns_give(w->turns);
	return NULL;
}

static void threads_that_are_gone_do_not_wait_for_their_turn(void **state)
{
	static const atomic_bool never;
	struct worker workers[8];
	struct net_turns turns;

	(void)state;
	net_turns_init(&turns);
	assert_true(net_turns_take(&turns, 1, &never));
	for (unsigned i = 0; i < 8; i++) {
		workers[i] = (struct worker){.turns = &turns, .lane = (uint8_t)i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		while (!atomic_load(&workers[i].waits))
			cairn_sleep_ms(1);
	}
	for (unsigned i = 0; i < 8; i += 2) {
		atomic_store(&workers[i].gone, true);
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_false(atomic_load(&workers[i].had));
	}
	net_turns_give(&turns);
	for (unsigned i = 1; i < 8; i += 2) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		assert_true(atomic_load(&workers[i].had));
	}
	net_turns_done(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_lane_waits_for_one_piece_of_work),
		cmocka_unit_test(threads_that_are_gone_do_not_wait_for_their_turn),
	};

	return cmocka_run_group_tests_name("net/crowd", tests, NULL, NULL);
}
