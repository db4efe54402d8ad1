/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kube/global_init.h"
#include "kube/object.h"
#include "kube/watch_decoder.h"

static const char three[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"
			    "\r\n\n"
			    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"name\":\"b\"}}}\r\n"
			    "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"c\"}}}\n";

static void events_come_whole_from_pieces_of_any_size(void **state)
{
	static const enum kube_watch_event_type types[] = {KUBE_ADDED, KUBE_BOOKMARK, KUBE_DELETED};

	(void)state;
	for (size_t piece = 1; piece <= sizeof(three) - 1; piece++) {
		struct kube_watch_decoder decoder;
		struct cairn_err err = {0};
		size_t seen = 0;

		kube_watch_decoder_init(&decoder, 0);
		for (size_t at = 0; at < sizeof(three) - 1; at += piece) {
			size_t n = sizeof(three) - 1 - at < piece ? sizeof(three) - 1 - at : piece;
			struct kube_watch_event event;
			int rc;

			assert_ok(kube_watch_decoder_push(&decoder, three + at, n, &err), &err);
			while ((rc = kube_watch_decoder_next(&decoder, &event, &err)) == 1) {
				assert_int_equal(event.type, types[seen]);
				assert_int_equal(kube_name(event.object)[0], 'a' + (int)seen);
				seen++;
				kube_watch_event_done(&event);
			}
			assert_ok(rc, &err);
		}
		assert_int_equal(seen, 3);
		assert_true(kube_watch_decoder_is_empty(&decoder));
		kube_watch_decoder_done(&decoder);
	}
}

static void a_part_of_an_event_is_seen_to_be_one(void **state)
{
	struct kube_watch_decoder decoder;
	struct kube_watch_event event;

	(void)state;
	kube_watch_decoder_init(&decoder, 0);
	assert_int_equal(kube_watch_decoder_push(&decoder, three, 20, NULL), 0);
	assert_int_equal(kube_watch_decoder_next(&decoder, &event, NULL), 0);
	assert_false(kube_watch_decoder_is_empty(&decoder));
	kube_watch_decoder_done(&decoder);
}

static void what_is_no_event_ends_it(void **state)
{
	static const char *const cases[] = {
		"hello\n",
		"{\"type\":\"ADDED\"}\n",
		"{\"type\":\"CHANGED\",\"object\":{}}\n",
		"{\"type\":1,\"object\":{}}\n",
		"{\"type\":\"ADDED\",\"object\":[]}\n",
		"[]\n",
		"{\"type\":\"ADDED\",\"object\":{}}{}\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_watch_decoder decoder;
		struct kube_watch_event event;

		kube_watch_decoder_init(&decoder, 0);
		assert_int_equal(
			kube_watch_decoder_push(&decoder, cases[i], strlen(cases[i]), NULL), 0);
		assert_code(kube_watch_decoder_next(&decoder, &event, NULL), CAIRN_INTERNAL);
		assert_int_equal(kube_watch_decoder_push(&decoder, three, 5, NULL), CAIRN_NO_SPACE);
		assert_code(kube_watch_decoder_next(&decoder, &event, NULL), CAIRN_INTERNAL);
		assert_false(kube_watch_decoder_is_empty(&decoder));
		kube_watch_decoder_done(&decoder);
	}
}

static void an_event_over_the_limit_is_refused_with_and_without_its_end(void **state)
{
	const size_t limits[] = {10, (size_t)(strchr(three, '\n') - three)};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct kube_watch_decoder decoder;
		struct kube_watch_event event;
		int rc;

		kube_watch_decoder_init(&decoder, limits[i]);
		assert_int_equal(kube_watch_decoder_push(&decoder, three, 40, NULL), 0);
		rc = kube_watch_decoder_next(&decoder, &event, NULL);
		if (rc == 0) {
			assert_int_equal(kube_watch_decoder_push(&decoder, three + 40,
								 sizeof(three) - 41, NULL),
					 0);
			assert_int_equal(kube_watch_decoder_next(&decoder, &event, NULL), 1);
			kube_watch_event_done(&event);
			rc = kube_watch_decoder_next(&decoder, &event, NULL);
		}
		assert_code(rc, CAIRN_NO_SPACE);
		kube_watch_decoder_done(&decoder);
	}
}

static void nothing_leaks_or_breaks_without_memory(void **state)
{
	(void)state;
	for (size_t n = 1; n < 100; n++) {
		struct kube_watch_decoder decoder;
		struct kube_watch_event event = {.object = NULL};
		struct cairn_err err = {0};
		int rc;

		cairn_mem_fail_at(n, 0);
		kube_watch_decoder_init(&decoder, 0);
		rc = kube_watch_decoder_push(&decoder, three, sizeof(three) - 1, &err);
		while (rc == 0 && (rc = kube_watch_decoder_next(&decoder, &event, &err)) == 1) {
			kube_watch_event_done(&event);
			rc = 0;
			if (kube_watch_decoder_is_empty(&decoder))
				break;
		}
		cairn_mem_fail_at(0, 0);
		assert_true(rc == 0 || rc == CAIRN_NO_SPACE);
		kube_watch_decoder_done(&decoder);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_whole_from_pieces_of_any_size),
		cmocka_unit_test(a_part_of_an_event_is_seen_to_be_one),
		cmocka_unit_test(what_is_no_event_ends_it),
		cmocka_unit_test(an_event_over_the_limit_is_refused_with_and_without_its_end),
		cmocka_unit_test(nothing_leaks_or_breaks_without_memory),
	};

	kube_global_init();
	return cmocka_run_group_tests_name("kube/watch", tests, NULL, NULL);
}
