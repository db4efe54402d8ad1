/* SPDX-License-Identifier: Apache-2.0 */

/* The conformance suite for the SnapshotMetadata service of a CSI driver.
 *
 * A test is a name, the rule that it checks and a function; each group of tests is a table
 * in its own file. Tests run one after another in the order of the tables, because the
 * last group deletes objects that the others use. Rule numbers are explained in
 * cairn-conformance(1).
 */
#ifndef CAIRN_CONFORMANCE_SUITE_H
#define CAIRN_CONFORMANCE_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conformance/block_listing.h"
#include "conformance/driver_target.h"
#include "conformance/scene.h"
#include "conformance/test_verdict.h"

/* Number of streams that the rules for all streams are checked on. */
#define SUITE_STREAMS_MAX 12U

struct suite {
	struct target target;
	struct scene scene;
	bool thorough; /* test every relevant offset */

	struct listing streams[SUITE_STREAMS_MAX];
	uint64_t stream_sizes[SUITE_STREAMS_MAX]; /* size of the snapshot */
	size_t n_streams;
};

struct suite_test {
	const char *name; /* "group.what-must-hold"; NULL ends a table */
	const char *rule; /* "3": a rule; "errors", "controller", "practice": see there */
	void (*run)(struct suite *suite, struct verdict *v, int arg);
	int arg;
};

extern const struct suite_test suite_capability_tests[];
extern const struct suite_test suite_coverage_tests[];
extern const struct suite_test suite_stream_tests[];
extern const struct suite_test suite_max_results_tests[];
extern const struct suite_test suite_offset_tests[];
extern const struct suite_test suite_error_tests[];
extern const struct suite_test suite_ending_tests[];
extern const struct suite_test suite_snapshot_tests[];
extern const struct suite_test suite_lifetime_tests[];

/* The i-th test of all, or NULL. */
const struct suite_test *conformance_suite_test_at(size_t i);

#endif
