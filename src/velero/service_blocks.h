/* SPDX-License-Identifier: Apache-2.0 */

/* ItemBlockAction: claims of one group are backed up as one block, so that the hooks of all their
 * pods have run before the group is cut. A server that knows groups names the same claims.
 *
 * `arg` is a struct velero_services.
 */
#ifndef CAIRN_VELERO_SERVICE_BLOCKS_H
#define CAIRN_VELERO_SERVICE_BLOCKS_H

struct cairn_err;
struct net_call;

int velero_blocks_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_blocks_related(struct net_call *call, void *arg, struct cairn_err *err);

#endif
