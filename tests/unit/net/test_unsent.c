/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "net/unsent.h"

#define LARGE (3U * NET_UNSENT_SPARE_BYTES)

static uint8_t bytes[LARGE];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8));
}

static void bytes_leave_in_order(void **state)
{
	struct net_unsent_spare spare = {0};
	struct net_unsent unsent = {0};
	size_t added = 0, taken = 0;

	(void)state;
	fill();
	while (taken < sizeof(bytes)) {
		size_t n = 1 + added % 5000;

		if (added + n <= sizeof(bytes)) {
			assert_true(net_unsent_add(&unsent, &spare, bytes + added, n));
			added += n;
		} else if (added < sizeof(bytes)) {
			assert_true(net_unsent_add(&unsent, &spare, bytes + added,
						   sizeof(bytes) - added));
			added = sizeof(bytes);
		}
		n = net_unsent_len(&unsent) / (added < sizeof(bytes) ? 3 : 1);
		assert_memory_equal(unsent.data + unsent.at, bytes + taken, n);
		net_unsent_drop(&unsent, &spare, n);
		taken += n;
	}
	assert_null(unsent.data);
	assert_int_equal(net_unsent_len(&unsent), 0);
	net_unsent_spare_done(&spare);
}

/* Of many connections that were blocked, one buffer is left, and small ones leave none. */
static void one_large_buffer_is_kept(void **state)
{
	struct net_unsent_spare spare = {0};
	struct net_unsent many[16] = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		assert_true(net_unsent_add(&many[i], &spare, bytes, i % 2 ? LARGE : 1000));
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		net_unsent_clear(&many[i], &spare);
	assert_true(spare.cap == 0 || spare.cap == LARGE); /* 0 with AddressSanitizer */
	if (spare.cap > 0) {
		assert_true(net_unsent_add(&many[0], &spare, bytes, 1000));
		assert_int_equal(many[0].cap, 1000); /* not the large one */
		assert_true(net_unsent_add(&many[1], &spare, bytes, LARGE - 1));
		assert_int_equal(many[1].cap, LARGE);
		assert_null(spare.data);
		net_unsent_clear(&many[0], &spare);
		net_unsent_clear(&many[1], &spare);
	}
	net_unsent_spare_done(&spare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_leave_in_order),
		cmocka_unit_test(one_large_buffer_is_kept),
	};

	return cmocka_run_group_tests_name("net/unsent", tests, NULL, NULL);
}
