/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn manager --backups`: metrics of the backups of claims. */
#ifndef CAIRN_ROLES_MANAGER_BACKUPS_H
#define CAIRN_ROLES_MANAGER_BACKUPS_H

#include <signal.h>

struct cairn_err;
struct manager_options;

/* Runs until a signal. */
int manager_backups_run(const struct manager_options *options, const sigset_t *signals,
			struct cairn_err *err);

#endif
