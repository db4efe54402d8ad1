/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn verify` over two devices: copies what a SnapshotMetadata service lists
 * from one to the other and compares them. */
#ifndef CAIRN_CLI_VERIFY_DEVICES_H
#define CAIRN_CLI_VERIFY_DEVICES_H

#include "cli/client_flags.h"

/* Checks that the question is whole, runs it and prints what came of it.
 *
 * CAIRN_DATA_LOSS  the devices differ
 */
int cmd_verify_devices(struct client_flags *asked, const char *source, const char *target,
		       struct cairn_err *err);

#endif
