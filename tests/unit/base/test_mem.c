/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

/* Sanitizers end the program where malloc() would return NULL, unless an option forbids it. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__tsan_default_options(void) __attribute__((visibility("default")));

const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void nothing_asked_for_is_still_a_pointer(void **state)
{
	(void)state;
	cairn_auto_free void *a = cairn_alloc(0);
	cairn_auto_free void *b = cairn_calloc(0, 0);
	cairn_auto_free void *c = cairn_realloc_array(NULL, 0, 8);
	cairn_auto_free void *d = cairn_memdup(NULL, 0);

	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_non_null(d);
}

static void a_product_that_overflows_is_no_memory(void **state)
{
	cairn_auto_free void *kept = cairn_alloc(8);
	/* Not constants, or the compiler would warn of what is tested. */
	volatile size_t many = SIZE_MAX / 2;

	(void)state;
	assert_null(cairn_calloc(many, 4));
	assert_null(cairn_realloc_array(kept, many, 4));
	memset(kept, 1, 8);
}

static void copies_are_whole(void **state)
{
	cairn_auto_free char *a = cairn_strdup("stone");
	cairn_auto_free char *b = cairn_strndup("stone", 2);
	cairn_auto_free char *c = cairn_strndup("stone", 99);
	cairn_auto_free char *d = cairn_memdup("a\0b", 3);
	cairn_auto_free char *e = cairn_printf("%s-%d", "x", 5);

	(void)state;
	assert_string_equal(a, "stone");
	assert_string_equal(b, "st");
	assert_string_equal(c, "stone");
	assert_memory_equal(d, "a\0b", 3);
	assert_string_equal(e, "x-5");
}

static void the_chosen_allocation_fails_and_no_other(void **state)
{
	(void)state;
	cairn_mem_fail_at(2, 0);
	for (int i = 1; i <= 4; i++) {
		cairn_auto_free void *p = cairn_alloc(1);

		assert_int_equal(p == NULL, i == 2);
	}
	assert_int_equal(cairn_mem_count(), 4);
	cairn_mem_fail_at(0, 0);
	assert_int_equal(cairn_mem_count(), 0);
}

static void or_every_one_after_it(void **state)
{
	(void)state;
	cairn_mem_fail_at(2, 1);
	cairn_auto_free char *a = cairn_strdup("a");

	assert_non_null(a);
	assert_null(cairn_calloc(1, 1));
	assert_null(cairn_strdup("b"));
	assert_null(cairn_strndup("b", 1));
	assert_null(cairn_memdup("b", 1));
	assert_null(cairn_printf("b"));
	assert_null(cairn_realloc_array(NULL, 1, 1));
	cairn_mem_fail_at(0, 0);
	cairn_auto_free char *b = cairn_strdup("b");

	assert_non_null(b);
}

/* Resident pages that come from files, in KiB. */
static unsigned resident_of_files(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned kib = 0;
	char line[128];

	assert_non_null(status);
	while (fgets(line, sizeof(line), status))
		if (strncmp(line, "RssFile:", 8) == 0)
			for (const char *c = line + 8; *c; c++)
				kib = *c >= '0' && *c <= '9' ? kib * 10 + (unsigned)(*c - '0')
							     : kib;
	fclose(status);
	return kib;
}

static const char constant[] = "what is read stays what it was";

static void dropping_clean_pages_changes_nothing_but_their_number(void **state)
{
	unsigned before = resident_of_files();

	(void)state;
	cairn_mem_drop_clean();
	assert_true(resident_of_files() < before);
	assert_string_equal(constant, "what is read stays what it was");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_asked_for_is_still_a_pointer),
		cmocka_unit_test(a_product_that_overflows_is_no_memory),
		cmocka_unit_test(copies_are_whole),
		cmocka_unit_test(the_chosen_allocation_fails_and_no_other),
		cmocka_unit_test(or_every_one_after_it),
		cmocka_unit_test(dropping_clean_pages_changes_nothing_but_their_number),
	};

	return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
