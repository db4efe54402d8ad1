/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn list`: the blocks that a SnapshotMetadata service lists. */
#ifndef CAIRN_ROLES_LIST_H
#define CAIRN_ROLES_LIST_H

#include "cli/client_flags.h"

/* Filled by its flags. */
extern struct client_flags cmd_list;

/* Lists and prints. Fails unless the list is complete. */
int client_list_run(struct cairn_err *err);

#endif
