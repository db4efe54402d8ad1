/* SPDX-License-Identifier: Apache-2.0 */

/* Requests that must be rejected, each with its code. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "conformance/delta_check.h"

static const int invalid[] = {CAIRN_INVALID, 0};
static const int not_found[] = {CAIRN_NOT_FOUND, 0};

enum what {
	NO_SNAPSHOT,
	NO_BASE,
	NO_TARGET,
	UNKNOWN_SNAPSHOT,
	UNKNOWN_BASE,
	UNKNOWN_TARGET,
};

/* Returns an id of the same format that no snapshot has: a driver that parses its ids must
 * find it well formed. */
static char *unknown_like(const char *id)
{
	char *copy = cairn_strdup(id);
	int changed = 0;

	for (size_t i = copy ? strlen(copy) : 0; i-- > 0 && changed < 6;) {
		if (isdigit((unsigned char)copy[i])) {
			copy[i] = (char)('0' + (copy[i] - '0' + 5) % 10);
			changed++;
		} else if (copy[i] >= 'a' && copy[i] <= 'f') {
			copy[i] = (char)('a' + (copy[i] - 'a' + 3) % 6);
			changed++;
		}
	}
	return copy;
}

static void bad_id(struct suite *suite, struct verdict *v, int what)
{
	cairn_auto_free char *unknown = NULL;
	struct listing_request r;

	if (!conformance_check_main(suite, v))
		return;
	unknown = unknown_like(suite->scene.first->id);
	if (!unknown || strcmp(unknown, suite->scene.first->id) == 0) {
		conformance_verdict_skip(v, "no id can be made up that looks like '%s'",
					 suite->scene.first->id);
		return;
	}
	r = conformance_check_request(suite, what == NO_SNAPSHOT || what == UNKNOWN_SNAPSHOT
						     ? CHECK_ALLOCATED
						     : CHECK_DELTA);
	switch (what) {
	case NO_BASE:
		r.base = "";
		break;
	case UNKNOWN_BASE:
		r.base = unknown;
		break;
	case NO_SNAPSHOT:
	case NO_TARGET:
		r.target = "";
		break;
	default:
		r.target = unknown;
	}
	conformance_check_refused(suite, v, &r, what <= NO_TARGET ? invalid : not_found, 0);
}

static void test_errors_swapped(struct suite *suite, struct verdict *v, int arg)
{
	static const int codes[] = {CAIRN_INVALID, CAIRN_PRECONDITION, CAIRN_RANGE, 0};
	struct listing_request r = {0};

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r.base = suite->scene.second->id;
	r.target = suite->scene.first->id;
	conformance_check_refused(suite, v, &r, codes, 0);
}

static void test_errors_unrelated(struct suite *suite, struct verdict *v, int arg)
{
	static const int codes[] = {CAIRN_INVALID, CAIRN_PRECONDITION, CAIRN_NOT_FOUND, 0};
	struct listing_request r = {0};
	struct cairn_err err = {0};

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	if (conformance_scene_other(&suite->scene, &err)) {
		conformance_verdict_fail(v, "another volume cannot be made: %s", err.msg);
		return;
	}
	r.base = suite->scene.first->id;
	r.target = suite->scene.of_other->id;
	conformance_check_refused(suite, v, &r, codes, 0);
}

/* Rule 10, on errors that every driver must return. */
static void error_form(struct suite *suite, struct verdict *v, int details)
{
	struct listing_request r = {.target = ""};

	if (!conformance_check_main(suite, v))
		return;
	for (int i = 0; i < 3; i++) {
		cairn_auto_free char *unknown = unknown_like(suite->scene.first->id);
		struct listing l;

		if (i == 1)
			r.base = "";
		if (i == 2)
			r = (struct listing_request){.target = unknown};
		conformance_listing_get(&suite->target, &r, &l);
		if (l.code != 0 && !l.local && !details && !l.has_text)
			conformance_verdict_fail(v, "%s: %s without a message", l.label,
						 cairn_code_name(l.code));
		if (l.code != 0 && details && l.has_details)
			conformance_verdict_fail(v, "%s: %s with details", l.label,
						 cairn_code_name(l.code));
		conformance_listing_free(&l);
	}
}

const struct suite_test suite_error_tests[] = {
	{"errors.no-snapshot-id", "errors", bad_id, NO_SNAPSHOT},
	{"errors.no-base-id", "errors", bad_id, NO_BASE},
	{"errors.no-target-id", "errors", bad_id, NO_TARGET},
	{"errors.unknown-snapshot", "errors", bad_id, UNKNOWN_SNAPSHOT},
	{"errors.unknown-base", "errors", bad_id, UNKNOWN_BASE},
	{"errors.unknown-target", "errors", bad_id, UNKNOWN_TARGET},
	{"errors.swapped", "errors", test_errors_swapped, 0},
	{"errors.unrelated-volumes", "errors", test_errors_unrelated, 0},
	{"errors.have-a-message", "10", error_form, 0},
	{"errors.have-no-details", "10", error_form, 1},
	{.name = NULL},
};
