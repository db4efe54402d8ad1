/* SPDX-License-Identifier: Apache-2.0 */

/* Serializes calls on one object. A call that finds another in progress on the same volume
 * or name does not wait: as CSI requires, it fails with ABORTED and is retried.
 *
 * A turn and its key live in the scope of the holder:
 *
 * 	csi_auto_turn struct csi_op_lock turn = {0};
 * 	int rc = csi_op_lock_take(&driver->turns, volume_id, &turn, err);
 */
#ifndef CAIRN_CSI_TURN_H
#define CAIRN_CSI_TURN_H

#include <pthread.h>

#include "base/cleanup.h"

struct cairn_err;
struct csi_turns;

struct csi_op_lock {
	struct csi_turns *turns; /* NULL: not taken */
	struct csi_op_lock *next;
	const char *key;
};

/* There are as many as calls in progress, so a list is fast enough. */
struct csi_turns {
	pthread_mutex_t mutex;
	struct csi_op_lock *first;
};

void csi_turns_init(struct csi_turns *turns);
void csi_turns_done(struct csi_turns *turns);

/* `key` is borrowed until the turn ends. CAIRN_ABORTED if another call holds it. */
int csi_op_lock_take(struct csi_turns *turns, const char *key, struct csi_op_lock *turn,
		     struct cairn_err *err);
/* Accepts a turn that was not taken. */
void csi_op_lock_end(struct csi_op_lock *turn);
#define csi_auto_turn cairn_cleanup(csi_op_lock_end)

#endif
