/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the driver implements the capabilities it reports. */

#include "base/err.h"
#include "conformance/delta_check.h"

static void advertised(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	if (!suite->target.has_metadata)
		verdict_fail(v, "GetPluginCapabilities does not name SNAPSHOT_METADATA_SERVICE");
}

static void implemented(struct suite *suite, struct verdict *v, int pair)
{
	struct listing_request request;
	struct listing l;

	if (!check_main(suite, v))
		return;
	request = check_request(suite, (enum check_pair)pair);
	check_get(suite, v, &request, &l);
	listing_free(&l);
}

const struct suite_test suite_capability_tests[] = {
	{"capability.advertised", "capability", advertised, 0},
	{"capability.allocated", "capability", implemented, CHECK_ALLOCATED},
	{"capability.delta", "capability", implemented, CHECK_DELTA},
	{.name = NULL},
};
