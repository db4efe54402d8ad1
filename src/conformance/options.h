/* SPDX-License-Identifier: Apache-2.0 */

/* Interface of the conformance suite for its command. */
#ifndef CAIRN_CONFORMANCE_OPTIONS_H
#define CAIRN_CONFORMANCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

struct suite_options {
	const char *endpoint;            /* "unix:///path" */
	const char *only;                /* shell pattern of names, or NULL */
	const char *junit_file;          /* or NULL */
	const char *staging_dir;         /* parent of all paths passed to the driver */
	const char *parameters;          /* "K=V,…" of CreateVolume, or NULL */
	const char *snapshot_parameters; /* "K=V,…" of CreateSnapshot, or NULL */
	const char *secrets_file;        /* lines KEY=VALUE, or NULL */
	uint64_t size;
	uint64_t timeout_ms;
	bool thorough; /* test every relevant offset */
	bool list;     /* only list the tests */
};

/* Runs the tests and writes TAP to standard output. SIGINT and SIGTERM end it early; all
 * objects it created are removed in any case.
 *
 * CAIRN_CANCELLED  a test failed, or it was interrupted
 * CAIRN_INVALID    an option is invalid, or no test matches
 * other            the driver cannot be reached or does not report its capabilities
 */
int conformance_suite_run(const struct suite_options *options, struct cairn_err *err);

#endif
