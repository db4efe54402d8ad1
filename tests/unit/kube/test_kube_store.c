/* SPDX-License-Identifier: Apache-2.0 */

/* What informers and controllers keep: the store, the queue, and the parts of
 * clients that only count. */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/event_series.h"
#include "kube/global_init.h"
#include "kube/kube_limiter.h"
#include "kube/kube_resource.h"
#include "kube/lease_record.h"
#include "kube/object.h"
#include "kube/object_store.h"
#include "kube/queue.h"

#define MS  CAIRN_NS_PER_MS
#define SEC CAIRN_NS_PER_SEC

static void by_colors(const json_t *object, void (*emit)(void *to, const char *text), void *to)
{
	const json_t *item;
	size_t i;

	json_array_foreach(kube_at(object, "colors"), i, item)
	{
		emit(to, json_string_value(item));
	}
}

static const struct kube_index indexes[] = {{.name = "color", .texts = by_colors},
					    {.name = "twice", .texts = by_colors},
					    {.name = NULL}};

static json_t *colored(const char *first, const char *second)
{
	json_t *object = json_pack("{s:[s, s]}", "colors", first, second);

	return object;
}

static size_t count_of(const struct kube_store *store, const char *color)
{
	json_t **found = NULL;
	size_t n = 0;

	assert_int_equal(kube_store_find(store, "color", color, &found, &n, NULL), 0);
	kube_objects_free(found, n);
	return n;
}

static int put(struct kube_store *store, const char *key, json_t *object)
{
	kube_auto_json json_t *owned = object;
	json_t *old = NULL;
	int rc = kube_store_put(store, key, owned, &old, NULL);

	json_decref(old);
	return rc;
}

static void objects_are_found_by_what_they_have_now(void **state)
{
	cairn_cleanup(kube_store_freep) struct kube_store *store = NULL;
	struct cairn_err err = {0};
	json_t **found;
	size_t n;

	(void)state;
	assert_ok(kube_store_new(indexes, &store, &err), &err);
	assert_int_equal(put(store, "a", colored("red", "blue")), 0);
	assert_int_equal(put(store, "b", colored("red", "red")), 0);
	assert_int_equal(count_of(store, "red"), 2);
	assert_int_equal(put(store, "a", colored("green", "blue")), 0);
	assert_int_equal(count_of(store, "red"), 1);
	assert_int_equal(count_of(store, "green"), 1);
	assert_int_equal(count_of(store, "none"), 0);
	json_decref(kube_store_remove(store, "b"));
	assert_null(kube_store_remove(store, "b"));
	assert_int_equal(count_of(store, "red"), 0);
	assert_int_equal(kube_store_count(store), 1);
	assert_true(kube_store_check(store));
	assert_code(kube_store_find(store, "size", "x", &found, &n, NULL), CAIRN_INVALID);
}

static void a_store_without_memory_holds_the_old_the_new_or_nothing(void **state)
{
	(void)state;
	for (size_t n = 1; n < 120; n++) {
		cairn_cleanup(kube_store_freep) struct kube_store *store = NULL;
		json_t *objects[3] = {colored("red", "blue"), colored("blue", "green"),
				      colored("red", "green")};
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = kube_store_new(indexes, &store, NULL);
		for (size_t i = 0; i < 3; i++) {
			json_t *old = NULL;

			if (!rc &&
			    kube_store_put(store, i == 1 ? "b" : "a", objects[i], &old, NULL) == 0)
				assert_ptr_equal(kube_store_get(store, i == 1 ? "b" : "a"),
						 objects[i]);
			json_decref(old);
			assert_true(!store || kube_store_check(store));
		}
		cairn_mem_fail_at(0, 0);
		for (size_t i = 0; i < 3; i++)
			json_decref(objects[i]);
	}
}

static void a_key_waits_once_and_is_worked_on_by_one(void **state)
{
	cairn_cleanup(kube_queue_freep) struct kube_queue *queue = NULL;
	char key[KUBE_KEY_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_queue_new(0, 0, &queue, &err), &err);
	assert_ok(kube_queue_add(queue, "a", &err), &err);
	assert_ok(kube_queue_add(queue, "b", &err), &err);
	assert_ok(kube_queue_add(queue, "a", &err), &err);
	assert_int_equal(kube_queue_length(queue), 2);
	assert_int_equal(kube_queue_take(queue, key), 1);
	assert_string_equal(key, "a");
	assert_ok(kube_queue_add(queue, "a", &err), &err); /* while it is worked on */
	assert_int_equal(kube_queue_length(queue), 1);
	assert_int_equal(kube_queue_take(queue, key), 1);
	assert_string_equal(key, "b");
	kube_queue_done(queue, "b");
	assert_int_equal(kube_queue_length(queue), 0);
	kube_queue_done(queue, "a");
	assert_int_equal(kube_queue_length(queue), 1);
	assert_int_equal(kube_queue_take(queue, key), 1);
	assert_string_equal(key, "a");
	kube_queue_done(queue, "a");
	kube_queue_shutdown(queue);
	assert_int_equal(kube_queue_take(queue, key), 0);
}

/* A tenant that adds a thousand keys first delays the key of another by one, or by two where
 * both have one lane. */
static void namespaces_are_served_in_turn(void **state)
{
	struct kube_queue *queue = NULL;
	char key[KUBE_KEY_MAX], expected[KUBE_KEY_MAX];
	unsigned before = 0;

	(void)state;
	assert_code(kube_queue_new(0, 0, &queue, NULL), 0);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "loud/object-%04u", i);
		assert_code(kube_queue_add(queue, key, NULL), 0);
	}
	/* Of eight others, all share the lane with a chance of 2^-64. */
	for (unsigned i = 0; i < 8; i++) {
		snprintf(key, sizeof(key), "quiet-%u/object", i);
		assert_code(kube_queue_add(queue, key, NULL), 0);
	}
	for (;; before++) {
		assert_int_equal(kube_queue_take(queue, key), 1);
		if (strncmp(key, "quiet", 5) == 0)
			break;
		/* In the order in which they were added. */
		snprintf(expected, sizeof(expected), "loud/object-%04u", before);
		assert_string_equal(key, expected);
		kube_queue_done(queue, key);
	}
	assert_in_range(before, 0, 8);
	kube_queue_free(queue);
}

/* It has waited for its turn before, and what it began may expire. */
static void what_failed_goes_before_its_neighbours_twice(void **state)
{
	cairn_cleanup(kube_queue_freep) struct kube_queue *queue = NULL;
	char key[KUBE_KEY_MAX];

	(void)state;
	assert_code(kube_queue_new(1, 1, &queue, NULL), 0);
	assert_code(kube_queue_add(queue, "ns/a", NULL), 0);
	for (unsigned failures = 1; failures <= 3; failures++) {
		assert_int_equal(kube_queue_take(queue, key), 1);
		assert_string_equal(key, "ns/a");
		assert_code(kube_queue_add(queue, "ns/b", NULL), 0);
		assert_code(kube_queue_add(queue, "ns/c", NULL), 0);
		assert_code(kube_queue_add(queue, "ns/a", NULL), 0); /* an event meanwhile */
		kube_queue_retry(queue, "ns/a");
	}
	for (const char *expected = "bca"; *expected; expected++) {
		assert_int_equal(kube_queue_take(queue, key), 1);
		assert_int_equal(key[3], *expected);
		kube_queue_done(queue, key);
	}
	assert_true(kube_queue_idle(queue));
}

static void what_failed_comes_again_after_longer_and_longer(void **state)
{
	cairn_cleanup(kube_queue_freep) struct kube_queue *queue = NULL;
	char key[KUBE_KEY_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_queue_new(1, 8, &queue, &err), &err);
	assert_ok(kube_queue_add(queue, "a", &err), &err);
	for (uint64_t want = 1; want <= 32; want *= 2) {
		assert_int_equal(kube_queue_take(queue, key), 1);
		assert_int_equal(kube_queue_retry(queue, key), want > 8 ? 8 : want);
	}
	assert_int_equal(kube_queue_take(queue, key), 1);
	kube_queue_done(queue, key);
	assert_ok(kube_queue_add(queue, "a", &err), &err);
	assert_int_equal(kube_queue_take(queue, key), 1);
	assert_int_equal(kube_queue_retry(queue, key), 1);
	assert_int_equal(kube_queue_retry(queue, "stranger"), 0);
}

static void plans_come_in_the_order_of_their_times(void **state)
{
	static const unsigned delays[] = {40, 10, 30, 20, 50, 15, 35, 25};
	cairn_cleanup(kube_queue_freep) struct kube_queue *queue = NULL;
	char key[KUBE_KEY_MAX], before[KUBE_KEY_MAX] = "";
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_queue_new(0, 0, &queue, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(delays); i++) {
		snprintf(key, sizeof(key), "%02u", delays[i]);
		assert_ok(kube_queue_add_after(queue, key, 3600000, &err), &err);
		assert_ok(kube_queue_add_after(queue, key, delays[i], &err), &err);
		assert_ok(kube_queue_add_after(queue, key, 3600000, &err), &err);
	}
	assert_int_equal(kube_queue_length(queue), 0);
	for (size_t i = 0; i < ARRAY_LEN(delays); i++) {
		assert_int_equal(kube_queue_take(queue, key), 1);
		assert_true(strcmp(before, key) < 0);
		snprintf(before, sizeof(before), "%s", key);
		kube_queue_done(queue, key);
	}
	/* What is added now does not wait for its plan. */
	assert_ok(kube_queue_add_after(queue, "x", 3600000, &err), &err);
	assert_ok(kube_queue_add(queue, "x", &err), &err);
	assert_int_equal(kube_queue_take(queue, key), 1);
	assert_string_equal(key, "x");
}

struct crowd {
	struct kube_queue *queue;
	atomic_int working[50];
	atomic_int done[50];
	atomic_int clashes;
};

static void *work(void *arg)
{
	struct crowd *crowd = arg;
	char key[KUBE_KEY_MAX];

	while (kube_queue_take(crowd->queue, key)) {
		int i = (key[0] - '0') * 10 + (key[1] - '0');

		if (atomic_fetch_add(&crowd->working[i], 1) != 0)
			atomic_fetch_add(&crowd->clashes, 1);
		atomic_fetch_add(&crowd->done[i], 1);
		atomic_fetch_sub(&crowd->working[i], 1);
		if (atomic_load(&crowd->done[i]) % 5 == 0)
			kube_queue_retry(crowd->queue, key);
		else
			kube_queue_done(crowd->queue, key);
	}
	return NULL;
}

static void no_two_workers_have_one_key(void **state)
{
	struct crowd crowd = {.clashes = 0};
	pthread_t threads[4];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_queue_new(1, 2, &crowd.queue, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &crowd), 0);
	for (int round = 0; round < 400; round++) {
		char key[8];

		snprintf(key, sizeof(key), "%02d", round * 7 % 50);
		assert_ok(kube_queue_add(crowd.queue, key, &err), &err);
	}
	while (kube_queue_length(crowd.queue) > 0)
		cairn_sleep_ms(1);
	kube_queue_shutdown(crowd.queue);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.clashes, 0);
	for (size_t i = 0; i < ARRAY_LEN(crowd.done); i++)
		assert_true(crowd.done[i] > 0);
	kube_queue_free(crowd.queue);
}

static void a_queue_without_memory_loses_no_key_that_it_took(void **state)
{
	(void)state;
	for (size_t n = 1; n < 120; n++) {
		struct kube_queue *queue = NULL;
		char key[KUBE_KEY_MAX];
		size_t taken = 0;

		cairn_mem_fail_at(n, 0);
		if (kube_queue_new(0, 0, &queue, NULL) == 0)
			for (int i = 0; i < 20; i++) {
				snprintf(key, sizeof(key), "%d", i);
				taken += kube_queue_add(queue, key, NULL) == 0;
			}
		cairn_mem_fail_at(0, 0);
		if (queue)
			assert_int_equal(kube_queue_length(queue), taken);
		for (size_t i = 0; i < taken; i++) {
			assert_int_equal(kube_queue_take(queue, key), 1);
			kube_queue_done(queue, key);
		}
		kube_queue_free(queue);
	}
}

static void a_rate_is_kept_and_a_burst_allowed(void **state)
{
	struct kube_limiter limiter;
	uint64_t now = 100 * SEC;

	(void)state;
	kube_limiter_init(&limiter, 10, 3, now);
	assert_int_equal(kube_limiter_wait(&limiter, now, 3), 0);
	for (int i = 0; i < 3; i++)
		assert_true(kube_limiter_take(&limiter, now));
	assert_false(kube_limiter_take(&limiter, now));
	assert_in_range(kube_limiter_wait(&limiter, now, 1), 99 * MS, 101 * MS);
	assert_in_range(kube_limiter_wait(&limiter, now, 3), 299 * MS, 301 * MS);
	assert_true(kube_limiter_take(&limiter, now + kube_limiter_wait(&limiter, now, 1)));
	now += 60 * SEC;
	for (int i = 0; i < 3; i++)
		assert_true(kube_limiter_take(&limiter, now));
	assert_false(kube_limiter_take(&limiter, now));
	kube_limiter_init(&limiter, -1, 0, now);
	for (int i = 0; i < 1000; i++)
		assert_true(kube_limiter_take(&limiter, now));
}

static void a_lease_is_free_when_it_did_not_change_for_its_time(void **state)
{
	kube_auto_json json_t *lease = kube_object_new(&kube_leases, "ns", "l");
	struct kube_lease_seen seen = {0};
	struct cairn_err err = {0};
	int64_t n = -1;

	(void)state;
	assert_ok(kube_lease_hold(lease, "one", 14001, 5 * SEC, &err), &err);
	assert_true(kube_i64(lease, &n, "spec", "leaseDurationSeconds"));
	assert_int_equal(n, 15);
	assert_true(kube_i64(lease, &n, "spec", "leaseTransitions"));
	assert_int_equal(n, 0);
	assert_ok(kube_set(lease, &err, json_string("1"), "metadata", "resourceVersion"), &err);
	assert_ok(kube_lease_look(&seen, lease, 100 * SEC, &err), &err);
	assert_true(kube_lease_is_free(&seen, lease, "one", 1000, 100 * SEC));
	assert_false(kube_lease_is_free(&seen, lease, "two", 1000, 114 * SEC));
	assert_true(kube_lease_is_free(&seen, lease, "two", 1000, 115 * SEC));
	/* Renewed: it counts from when that is seen, whatever clock it says. */
	assert_ok(kube_set(lease, &err, json_string("2"), "metadata", "resourceVersion"), &err);
	assert_ok(kube_lease_look(&seen, lease, 114 * SEC, &err), &err);
	assert_ok(kube_lease_look(&seen, lease, 120 * SEC, &err), &err);
	assert_false(kube_lease_is_free(&seen, lease, "two", 1000, 128 * SEC));
	assert_true(kube_lease_is_free(&seen, lease, "two", 1000, 129 * SEC));
	assert_ok(kube_lease_hold(lease, "two", 15000, 6 * SEC, &err), &err);
	assert_true(kube_i64(lease, &n, "spec", "leaseTransitions"));
	assert_int_equal(n, 1);
	assert_ok(kube_lease_hold(lease, "", 15000, 7 * SEC, &err), &err);
	assert_true(kube_lease_is_free(&seen, lease, "one", 1000, 0));
	kube_lease_seen_done(&seen);
}

static void repetitions_of_an_event_are_counted(void **state)
{
	struct kube_event_series series;
	kube_auto_json json_t *body = NULL;
	uint64_t due, now = 1000 * SEC;
	int64_t count = 0;
	size_t at;

	(void)state;
	assert_int_equal(kube_event_series_init(&series), 0);
	for (int i = 0; i < 3; i++)
		assert_true(kube_event_series_add(&series, "k", "o", json_object(), now, 5 * SEC));
	at = kube_event_series_next(&series, &due);
	assert_int_equal(due, now);
	body = kube_event_series_body(&series.all[at]);
	assert_true(kube_i64(body, &count, "series", "count"));
	assert_int_equal(count, 3);
	assert_true(kube_event_series_settle(&series, at, series.all[at].number, 3,
					     KUBE_EVENT_WRITTEN, now));
	assert_true(kube_event_series_next(&series, &due) == KUBE_SLOT_NONE);
	/* The next ones are written together, later. */
	assert_true(kube_event_series_add(&series, "k", "o", json_object(), now, 6 * SEC));
	assert_true(kube_event_series_add(&series, "k", "o", json_object(), now + SEC, 6 * SEC));
	assert_int_equal(kube_event_series_next(&series, &due), at);
	assert_int_equal(due, now + KUBE_EVENT_COUNT_MS * MS);
	json_decref(body);
	body = kube_event_series_body(&series.all[at]);
	assert_true(kube_i64(body, &count, "series", "count"));
	assert_int_equal(count, 5);
	assert_null(kube_at(body, "metadata"));
	/* Gone from the server: it is made anew, with its count. */
	assert_true(kube_event_series_settle(&series, at, series.all[at].number, 5, KUBE_EVENT_GONE,
					     now));
	json_decref(body);
	body = kube_event_series_body(&series.all[at]);
	assert_true(kube_i64(body, &count, "series", "count"));
	assert_true(kube_event_series_settle(&series, at, series.all[at].number, 5,
					     KUBE_EVENT_WRITTEN, now));
	/* Long after, it is another event. */
	now += (KUBE_EVENT_SERIES_MS + 1000) * MS;
	assert_true(kube_event_series_add(&series, "k", "o", json_object(), now, 9 * SEC));
	at = kube_event_series_next(&series, &due);
	assert_int_equal(series.all[at].count, 1);
	kube_event_series_done(&series);
}

static void an_object_may_cause_so_many_events(void **state)
{
	struct kube_event_series series;
	uint64_t now = 1000 * SEC;
	unsigned taken = 0;
	char key[16];

	(void)state;
	assert_int_equal(kube_event_series_init(&series), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%d", i);
		taken += kube_event_series_add(&series, key, "o", json_object(), now, 0);
	}
	assert_int_equal(taken, KUBE_EVENT_BURST);
	assert_true(kube_event_series_add(&series, "other", "p", json_object(), now, 0));
	now += KUBE_EVENT_REFILL_MS * MS;
	assert_true(kube_event_series_add(&series, "later", "o", json_object(), now, 0));
	assert_false(kube_event_series_add(&series, "later2", "o", json_object(), now, 0));
	kube_event_series_done(&series);
}

static void what_cannot_be_written_is_dropped_after_a_while(void **state)
{
	struct kube_event_series series;
	uint64_t due, now = 1000 * SEC;
	size_t at;

	(void)state;
	assert_int_equal(kube_event_series_init(&series), 0);
	assert_true(kube_event_series_add(&series, "k", "o", json_object(), now, 0));
	for (unsigned i = 1; i <= KUBE_EVENT_TRIES; i++) {
		at = kube_event_series_next(&series, &due);
		assert_true(due >= now);
		now = due;
		assert_int_equal(kube_event_series_settle(&series, at, series.all[at].number, 1,
							  KUBE_EVENT_LATER, now),
				 i < KUBE_EVENT_TRIES);
	}
	assert_true(kube_event_series_next(&series, &due) == KUBE_SLOT_NONE);
	assert_int_equal(series.waiting, 0);
	kube_event_series_done(&series);
}

static void too_many_waiting_or_remembered_events_push_out_none_that_waits(void **state)
{
	struct kube_event_series series;
	uint64_t due, now = 1000 * SEC;
	char key[16];

	(void)state;
	assert_int_equal(kube_event_series_init(&series), 0);
	for (int i = 0; i < KUBE_EVENTS_WAITING_MAX + 5; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(kube_event_series_add(&series, key, key, json_object(), now, 0),
				 i < KUBE_EVENTS_WAITING_MAX);
	}
	for (int i = 0; i < KUBE_EVENTS_SERIES_MAX + 100; i++) {
		size_t at = kube_event_series_next(&series, &due);

		snprintf(key, sizeof(key), "x%d", i);
		now += MS;
		assert_true(kube_event_series_settle(&series, at, series.all[at].number, 1,
						     KUBE_EVENT_WRITTEN, now));
		assert_true(kube_event_series_add(&series, key, key, json_object(), now, 0));
		assert_int_equal(series.waiting, KUBE_EVENTS_WAITING_MAX);
	}
	kube_event_series_done(&series);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_found_by_what_they_have_now),
		cmocka_unit_test(a_store_without_memory_holds_the_old_the_new_or_nothing),
		cmocka_unit_test(a_key_waits_once_and_is_worked_on_by_one),
		cmocka_unit_test(namespaces_are_served_in_turn),
		cmocka_unit_test(what_failed_goes_before_its_neighbours_twice),
		cmocka_unit_test(what_failed_comes_again_after_longer_and_longer),
		cmocka_unit_test(plans_come_in_the_order_of_their_times),
		cmocka_unit_test(no_two_workers_have_one_key),
		cmocka_unit_test(a_queue_without_memory_loses_no_key_that_it_took),
		cmocka_unit_test(a_rate_is_kept_and_a_burst_allowed),
		cmocka_unit_test(a_lease_is_free_when_it_did_not_change_for_its_time),
		cmocka_unit_test(repetitions_of_an_event_are_counted),
		cmocka_unit_test(an_object_may_cause_so_many_events),
		cmocka_unit_test(what_cannot_be_written_is_dropped_after_a_while),
		cmocka_unit_test(too_many_waiting_or_remembered_events_push_out_none_that_waits),
	};

	kube_global_init();
	return cmocka_run_group_tests_name("kube/store", tests, NULL, NULL);
}
