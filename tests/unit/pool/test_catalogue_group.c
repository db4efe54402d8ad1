/* SPDX-License-Identifier: Apache-2.0 */

/* Commits of many threads at a time, which share transactions and syncs: each
 * has its own fate, and what was acknowledged is what is there afterwards. */

#include "catalogue_helper.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/num.h"

#define THREADS 32
#define EACH    60

static atomic_uint syncs, fail_every;

/* Stands in for libc's, for the database library too. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	unsigned n = atomic_fetch_add(&syncs, 1) + 1;

	if (fail_every && n % fail_every == 0) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

enum fate {
	FATE_NONE,
	FATE_DONE,
	FATE_REFUSED, /* an expectation that can not hold */
	FATE_FAILED,
};

struct worker {
	struct catalogue *cat;
	unsigned id;
	pthread_t thread;
	enum fate fates[EACH];
	int wrong; /* a code that may not be */
};

static void key_of(const struct worker *w, unsigned i, char out[32])
{
	snprintf(out, 32, "t%02u-%03u", w->id, i);
}

/* Every fifth asks for something that is not so. */
static bool is_refusable(unsigned i)
{
	return i % 5 == 4;
}

static void commit_one(struct worker *w, unsigned i)
{
	auto_batch *batch = new_batch(w->cat);
	struct cairn_err err = {0};
	char key[32], other[40];
	int rc;

	key_of(w, i, key);
	snprintf(other, sizeof(other), "%s-too", key);
	if (is_refusable(i))
		pool_catalogue_expect(batch, text("never there"), text("x"));
	pool_catalogue_put(batch, text(key), text(key));
	pool_catalogue_put(batch, text(other), text(key));
	rc = pool_catalogue_commit(batch, i % 3 ? CATALOGUE_DURABLE : CATALOGUE_ORDERED, &err);
	if (rc == 0)
		w->fates[i] = FATE_DONE;
	else if (rc == CAIRN_ABORTED)
		w->fates[i] = FATE_REFUSED;
	else
		w->fates[i] = FATE_FAILED;
	if (rc != 0 && (err.code != rc || !err.msg[0]))
		w->wrong = rc;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < EACH; i++)
		commit_one(w, i);
	return NULL;
}

static void run_all(struct catalogue *cat, struct worker workers[THREADS])
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.cat = cat, .id = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

/* Both records of what was done, none of what was not. Returns how many failed. */
static unsigned assert_fates(struct catalogue *cat, const struct worker workers[THREADS])
{
	unsigned failed = 0;

	for (unsigned t = 0; t < THREADS; t++) {
		assert_int_equal(workers[t].wrong, 0);
		for (unsigned i = 0; i < EACH; i++) {
			enum fate fate = workers[t].fates[i];
			char key[32], other[40];

			key_of(&workers[t], i, key);
			snprintf(other, sizeof(other), "%s-too", key);
			assert_value(cat, key, fate == FATE_DONE ? key : NULL);
			assert_value(cat, other, fate == FATE_DONE ? key : NULL);
			failed += fate == FATE_FAILED;
			if (fate != FATE_FAILED)
				assert_int_equal(fate, is_refusable(i) ? FATE_REFUSED : FATE_DONE);
		}
	}
	return failed;
}

static void each_commit_has_its_own_fate(void **state)
{
	static struct worker workers[THREADS];
	auto_catalogue *cat = create_and_open();
	unsigned before = syncs;

	(void)state;
	run_all(cat, workers);
	assert_int_equal(assert_fates(cat, workers), 0);
	/* They share: fewer syncs than durable commits that were done. */
	assert_true(syncs - before < THREADS * EACH / 2);
	pool_catalogue_close(cairn_take(cat));
	cat = open_again(false);
	assert_int_equal(assert_fates(cat, workers), 0);
}

static void syncs_that_fail_take_back_what_was_not_acknowledged(void **state)
{
	static struct worker workers[THREADS];
	auto_catalogue *cat = create_and_open();
	bool certain;

	(void)state;
	fail_every = 7;
	run_all(cat, workers);
	fail_every = 0;
	certain = pool_catalogue_is_certain(cat);
	assert_true(certain);
	assert_true(assert_fates(cat, workers) > 0);
	pool_catalogue_close(cairn_take(cat));
	cat = open_again(false);
	assert_true(assert_fates(cat, workers) > 0);
}

static void *count_up(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < EACH;) {
		cairn_auto_free uint8_t *data = NULL;
		auto_batch *batch = new_batch(w->cat);
		uint64_t value = 0;
		char digits[24];
		size_t len = 0;
		int rc = pool_catalogue_get(w->cat, text("counter"), &data, &len, NULL);

		if (data)
			(void)cairn_parse_u64((char *)data, &value, NULL);
		snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value + 1);
		pool_catalogue_expect(batch, text("counter"), (struct catalogue_bytes){data, len});
		pool_catalogue_put(batch, text("counter"), text(digits));
		rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, NULL);
		if (rc == 0)
			i++;
		else if (rc != CAIRN_ABORTED)
			return arg;
	}
	return NULL;
}

static void expectations_see_what_came_before_in_the_group(void **state)
{
	static struct worker workers[THREADS];
	auto_catalogue *cat = create_and_open();
	char want[24];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		workers[i] = (struct worker){.cat = cat, .id = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, count_up, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < 8; i++) {
		void *failed;

		pthread_join(workers[i].thread, &failed);
		assert_null(failed);
	}
	snprintf(want, sizeof(want), "%d", 8 * EACH);
	assert_value(cat, "counter", want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		catalogue_test(each_commit_has_its_own_fate),
		catalogue_test(syncs_that_fail_take_back_what_was_not_acknowledged),
		catalogue_test(expectations_see_what_came_before_in_the_group),
	};

	return cmocka_run_group_tests_name("pool/catalogue group", tests, NULL, NULL);
}
