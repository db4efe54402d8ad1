/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn verify`: of two snapshots in the pool, which this program does, or of two devices,
 * which is work for the role "client". */
#ifndef CAIRN_CLI_VERIFY_H
#define CAIRN_CLI_VERIFY_H

#include "cli/client_flags.h"

struct cmd_verify {
	struct client_flags service;
	const char *source_device; /* NULL: snapshots */
	const char *target_device;
	const char *base;
	const char *target;
};

/* Filled by its flags and arguments. */
extern struct cmd_verify cmd_verify;

/* In `cairn`. */
int cmd_verify_run(struct cairn_err *err);

#endif
