/* SPDX-License-Identifier: Apache-2.0 */

/* The order in which a Velero server restores resources, against that of the design. Pure. */
#ifndef CAIRN_VELERO_RESTORE_ORDER_H
#define CAIRN_VELERO_RESTORE_ORDER_H

#include <jansson.h>

struct cairn_err;

/* The server's without the flag, Velero 1.18. */
extern const char velero_restore_order_default[];

/* `priorities` is the value of --restore-resource-priorities; NULL: the default. *ret is an array
 * of {first, second, matters}: the design restores `first` before `second`, the server does not.
 * It matters where claims are restored before what they are made from. The caller's. */
int velero_restore_order_check(const char *priorities, json_t **ret, struct cairn_err *err);

/* The value of a flag of the server's Deployment; NULL: it is not given. Borrowed. */
const char *velero_deployment_flag(const json_t *deployment, const char *name);

#endif
