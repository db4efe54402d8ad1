/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the driver implements the capabilities it reports. */

#include "base/err.h"
#include "conformance/delta_check.h"

static void test_capability_advertised(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	if (!suite->target.has_metadata)
		conformance_verdict_fail(
			v, "GetPluginCapabilities does not name SNAPSHOT_METADATA_SERVICE");
}

static void test_capability_implemented(struct suite *suite, struct verdict *v, int pair)
{
	struct listing_request request;
	struct listing l;

	if (!conformance_check_main(suite, v))
		return;
	request = conformance_check_request(suite, (enum check_pair)pair);
	conformance_check_get(suite, v, &request, &l);
	conformance_listing_free(&l);
}

const struct suite_test suite_capability_tests[] = {
	{"capability.advertised", "capability", test_capability_advertised, 0},
	{"capability.allocated", "capability", test_capability_implemented, CHECK_ALLOCATED},
	{"capability.delta", "capability", test_capability_implemented, CHECK_DELTA},
	{.name = NULL},
};
