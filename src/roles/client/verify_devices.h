/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn verify` of two devices: copies what a SnapshotMetadata service lists from one to the
 * other and compares them. */
#ifndef CAIRN_ROLES_VERIFY_DEVICES_H
#define CAIRN_ROLES_VERIFY_DEVICES_H

struct cairn_err;

/* Does what cli/cmd_verify.h was asked for and prints the result.
 *
 * CAIRN_DATA_LOSS  the devices differ
 */
int client_verify_run(struct cairn_err *err);

#endif
