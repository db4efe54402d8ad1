/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn manager --velero`: the controllers beside a Velero server. */
#ifndef CAIRN_ROLES_MANAGER_VELERO_H
#define CAIRN_ROLES_MANAGER_VELERO_H

#include <signal.h>

struct cairn_err;
struct manager_options;

/* Runs until a signal. */
int manager_velero_run(const struct manager_options *options, const sigset_t *signals,
		       struct cairn_err *err);

#endif
