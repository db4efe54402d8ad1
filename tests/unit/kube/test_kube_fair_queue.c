/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/kube_wait.h"

static const struct kube_wait patience = {.deadline_ns = UINT64_MAX};
static const struct kube_wait haste = {.deadline_ns = 1};

static struct kube_fair_queue *make(unsigned total, unsigned each, unsigned waiting,
				    unsigned waiting_each)
{
	struct kube_fair_queue_options options = {.what = "streams",
						  .total = total,
						  .each = each,
						  .waiting = waiting,
						  .waiting_each = waiting_each};
	struct kube_fair_queue *gate = NULL;
	struct cairn_err err = {0};

	assert_ok(kube_fair_queue_new(&options, &gate, &err), &err);
	return gate;
}

static int enter(struct kube_fair_queue *gate, const char *owner, const struct kube_wait *wait,
		 struct kube_fair_pass *pass)
{
	struct kube_digest key = kube_digest_of(owner, NULL);
	struct cairn_err err = {0};

	return kube_fair_queue_enter(gate, &key, wait, pass, &err);
}

/* One who waits on a thread of its own, and its number among those let in. */
struct visitor {
	struct kube_fair_queue *gate;
	const char *owner;
	struct kube_wait wait;
	_Atomic int gone;
	_Atomic int rc; /* 1 while it waits */
	unsigned number;
	struct kube_fair_pass pass;
	pthread_t thread;
};

static _Atomic unsigned let_in;

static int is_gone(const void *arg)
{
	const struct visitor *visitor = arg;

	return visitor->gone;
}

static void *visit(void *arg)
{
	struct visitor *v = arg;
	int rc = enter(v->gate, v->owner, &v->wait, &v->pass);

	v->number = ++let_in;
	v->rc = rc;
	return NULL;
}

static void send(struct visitor *v, struct kube_fair_queue *gate, const char *owner)
{
	struct kube_fair_queue_stats before, now;

	*v = (struct visitor){.gate = gate, .owner = owner, .rc = 1};
	v->wait = (struct kube_wait){.deadline_ns = UINT64_MAX, .check = is_gone, .arg = v};
	kube_fair_queue_stats(gate, &before);
	assert_int_equal(pthread_create(&v->thread, NULL, visit, v), 0);
	for (int i = 0; i < 30000; i++) {
		kube_fair_queue_stats(gate, &now);
		if (now.waiting > before.waiting || now.owners > before.owners || v->rc != 1)
			break;
		cairn_sleep_ms(2);
	}
}

static void wait_for(struct visitor *v)
{
	pthread_join(v->thread, NULL);
}

static void only_so_many_are_inside_and_of_one_owner(void **state)
{
	struct kube_fair_queue *gate = make(3, 2, 10, 10);
	struct kube_fair_pass a1 = {0}, a2 = {0}, a3 = {0}, b1 = {0}, c1 = {0};
	struct kube_fair_queue_stats stats;

	(void)state;
	assert_code(enter(gate, "a", &patience, &a1), 0);
	assert_code(enter(gate, "a", &patience, &a2), 0);
	assert_code(enter(gate, "a", &haste, &a3), CAIRN_DEADLINE);
	assert_code(enter(gate, "b", &patience, &b1), 0);
	assert_code(enter(gate, "c", &haste, &c1), CAIRN_DEADLINE);
	kube_fair_queue_stats(gate, &stats);
	assert_int_equal(stats.inside, 3);
	assert_int_equal(stats.owners, 2);
	kube_fair_queue_leave(&a1);
	kube_fair_queue_leave(&a1); /* a pass is good for once */
	assert_code(enter(gate, "c", &patience, &c1), 0);
	kube_fair_queue_leave(&a2);
	kube_fair_queue_leave(&b1);
	kube_fair_queue_leave(&c1);
	kube_fair_queue_stats(gate, &stats);
	assert_int_equal(stats.inside + stats.waiting + stats.owners, 0);
	kube_fair_queue_free(gate);
}

static void owners_take_turns_however_many_of_one_wait(void **state)
{
	struct kube_fair_queue *gate = make(1, 1, 100, 100);
	struct kube_fair_pass inside = {0};
	struct visitor crowd[5], single;

	(void)state;
	let_in = 0;
	assert_code(enter(gate, "x", &patience, &inside), 0);
	for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
		send(&crowd[i], gate, "crowd");
	send(&single, gate, "single");
	kube_fair_queue_leave(&inside);
	wait_for(&crowd[0]);
	kube_fair_queue_leave(&crowd[0].pass);
	wait_for(&single); /* the second, though five came before it */
	assert_int_equal(single.number, 2);
	assert_true(single.pass.waited);
	kube_fair_queue_leave(&single.pass);
	for (size_t i = 1; i < ARRAY_LEN(crowd); i++) {
		wait_for(&crowd[i]); /* and the crowd in the order it came */
		assert_int_equal(crowd[i].number, i + 2);
		kube_fair_queue_leave(&crowd[i].pass);
	}
	kube_fair_queue_free(gate);
}

static void an_owner_at_its_limit_holds_nobody_else_up(void **state)
{
	struct kube_fair_queue *gate = make(3, 1, 100, 100);
	struct kube_fair_pass a = {0}, b = {0};
	struct visitor more;

	(void)state;
	assert_code(enter(gate, "a", &patience, &a), 0);
	send(&more, gate, "a");
	assert_code(enter(gate, "b", &patience, &b), 0);
	assert_false(b.waited);
	assert_int_equal(more.rc, 1);
	kube_fair_queue_leave(&b);
	assert_int_equal(more.rc, 1);
	kube_fair_queue_leave(&a);
	wait_for(&more);
	assert_int_equal(more.rc, 0);
	kube_fair_queue_leave(&more.pass);
	kube_fair_queue_free(gate);
}

static void a_line_has_an_end(void **state)
{
	struct kube_fair_queue *gate = make(1, 1, 4, 2);
	struct kube_fair_pass inside = {0}, none = {0};
	struct visitor a1, a2, b1, b2;

	(void)state;
	assert_code(enter(gate, "x", &patience, &inside), 0);
	send(&a1, gate, "a");
	send(&a2, gate, "a");
	assert_code(enter(gate, "a", &patience, &none), CAIRN_NO_SPACE);
	send(&b1, gate, "b");
	send(&b2, gate, "b");
	assert_code(enter(gate, "b", &patience, &none), CAIRN_NO_SPACE);
	kube_fair_queue_leave(&inside);
	wait_for(&a1);
	kube_fair_queue_leave(&a1.pass);
	wait_for(&b1);
	kube_fair_queue_leave(&b1.pass);
	wait_for(&a2);
	kube_fair_queue_leave(&a2.pass);
	wait_for(&b2);
	kube_fair_queue_leave(&b2.pass);
	kube_fair_queue_free(gate);
}

/* Four addresses whose lines are full: a caller from a fifth one waits for its turn too, and the
 * newest of the longest line is refused for it. */
static void full_lines_keep_no_other_owner_out(void **state)
{
	static const char *const owners[] = {"a", "b", "c", "d"};
	struct kube_fair_queue *gate = make(1, 1, 8, 2);
	struct kube_fair_pass inside = {0}, none = {0};
	struct kube_fair_queue_stats stats;
	struct visitor crowd[8], fifth, sixth;

	(void)state;
	let_in = 0;
	assert_code(enter(gate, "x", &patience, &inside), 0);
	for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
		send(&crowd[i], gate, owners[i / 2]);
	assert_code(enter(gate, "d", &patience, &none), CAIRN_NO_SPACE);
	send(&fifth, gate, "e");
	assert_code(enter(gate, "e", &patience, &none), CAIRN_NO_SPACE); /* as many as the others */
	wait_for(&crowd[1]); /* the newest of the first of the longest lines */
	assert_int_equal(crowd[1].rc, CAIRN_NO_SPACE);
	send(&sixth, gate, "f");
	wait_for(&crowd[3]);
	assert_int_equal(crowd[3].rc, CAIRN_NO_SPACE);
	kube_fair_queue_stats(gate, &stats);
	assert_int_equal(stats.waiting, 8);
	kube_fair_queue_leave(&inside);
	for (size_t i = 0; i < ARRAY_LEN(crowd); i += 2) {
		wait_for(&crowd[i]);
		kube_fair_queue_leave(&crowd[i].pass);
	}
	wait_for(&fifth);
	assert_int_equal(fifth.rc, 0);
	kube_fair_queue_leave(&fifth.pass);
	wait_for(&sixth);
	assert_int_equal(sixth.rc, 0);
	kube_fair_queue_leave(&sixth.pass);
	wait_for(&crowd[5]);
	kube_fair_queue_leave(&crowd[5].pass);
	wait_for(&crowd[7]);
	kube_fair_queue_leave(&crowd[7].pass);
	kube_fair_queue_stats(gate, &stats);
	assert_int_equal(stats.inside + stats.waiting + stats.owners, 0);
	kube_fair_queue_free(gate);
}

static void who_gives_up_leaves_the_line(void **state)
{
	struct kube_fair_queue *gate = make(1, 1, 10, 10);
	struct kube_fair_pass inside = {0};
	struct kube_fair_queue_stats stats;
	struct visitor first, middle, last;

	(void)state;
	let_in = 0;
	assert_code(enter(gate, "x", &patience, &inside), 0);
	send(&first, gate, "a");
	send(&middle, gate, "a");
	send(&last, gate, "a");
	middle.gone = CAIRN_CANCELLED;
	wait_for(&middle);
	assert_int_equal(middle.rc, CAIRN_CANCELLED);
	kube_fair_queue_leave(&inside);
	wait_for(&first);
	kube_fair_queue_leave(&first.pass);
	wait_for(&last);
	assert_int_equal(last.rc, 0);
	kube_fair_queue_leave(&last.pass);
	kube_fair_queue_stats(gate, &stats);
	assert_int_equal(stats.inside + stats.waiting + stats.owners, 0);
	kube_fair_queue_free(gate);
}

/* --- many threads --- */

#define RUNNERS 16
#define ROUNDS  400

static struct {
	struct kube_fair_queue *gate;
	_Atomic int inside, of[4];
	_Atomic unsigned entered, too_many;
} crowd;

static void *runner(void *arg)
{
	static const char *const owners[] = {"a", "b", "c", "d"};
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned who = (unsigned)rand_r(&seed) % 4;
		struct kube_wait wait = {.deadline_ns = UINT64_MAX};
		struct kube_fair_pass pass = {0};

		if (rand_r(&seed) % 4 == 0)
			wait = kube_wait_within(&wait, 1);
		if (enter(crowd.gate, owners[who], &wait, &pass) != 0)
			continue;
		crowd.entered++;
		crowd.too_many += ++crowd.inside > 5;
		crowd.too_many += ++crowd.of[who] > 3;
		if (rand_r(&seed) % 8 == 0)
			cairn_sleep_ms(1);
		crowd.of[who]--;
		crowd.inside--;
		kube_fair_queue_leave(&pass);
	}
	return NULL;
}

static void the_limits_hold_with_many_threads(void **state)
{
	pthread_t threads[RUNNERS];
	struct kube_fair_queue_stats stats;

	(void)state;
	crowd.gate = make(5, 3, 8, 4);
	for (uintptr_t i = 0; i < RUNNERS; i++)
		pthread_create(&threads[i], NULL, runner, (void *)(i + 1));
	for (unsigned i = 0; i < RUNNERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.too_many, 0);
	assert_true(crowd.entered > RUNNERS);
	kube_fair_queue_stats(crowd.gate, &stats);
	assert_int_equal(stats.inside + stats.waiting + stats.owners, 0);
	kube_fair_queue_free(crowd.gate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_so_many_are_inside_and_of_one_owner),
		cmocka_unit_test(owners_take_turns_however_many_of_one_wait),
		cmocka_unit_test(an_owner_at_its_limit_holds_nobody_else_up),
		cmocka_unit_test(a_line_has_an_end),
		cmocka_unit_test(full_lines_keep_no_other_owner_out),
		cmocka_unit_test(who_gives_up_leaves_the_line),
		cmocka_unit_test(the_limits_hold_with_many_threads),
	};

	return cmocka_run_group_tests_name("kube/fair_queue", tests, NULL, NULL);
}
