/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn manager --certificates`: keeps the certificates of the services. */
#ifndef CAIRN_ROLES_MANAGER_CERTIFICATES_H
#define CAIRN_ROLES_MANAGER_CERTIFICATES_H

#include <signal.h>

struct cairn_err;
struct manager_options;

/* Runs until a signal. */
int manager_certificates_run(const struct manager_options *options, const sigset_t *signals,
			     struct cairn_err *err);

#endif
