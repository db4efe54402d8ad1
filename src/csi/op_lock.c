/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/op_lock.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"

void csi_turns_init(struct csi_turns *turns)
{
	pthread_mutex_init(&turns->mutex, NULL);
	turns->first = NULL;
}

void csi_turns_done(struct csi_turns *turns)
{
	pthread_mutex_destroy(&turns->mutex);
}

int csi_op_lock_take(struct csi_turns *turns, const char *key, struct csi_op_lock *turn,
		     struct cairn_err *err)
{
	/* A list is enough: it has at most one entry for each worker thread. */
	cairn_scoped_lock(&turns->mutex);
	for (const struct csi_op_lock *other = turns->first; other; other = other->next)
		if (strcmp(other->key, key) == 0)
			return cairn_err_set(err, CAIRN_ABORTED, "another call is at work on '%s'",
					     key);
	*turn = (struct csi_op_lock){.turns = turns, .next = turns->first, .key = key};
	turns->first = turn;
	return 0;
}

void csi_op_lock_end(struct csi_op_lock *turn)
{
	if (!turn->turns)
		return;
	cairn_scoped_lock(&turn->turns->mutex);
	for (struct csi_op_lock **at = &turn->turns->first; *at; at = &(*at)->next) {
		if (*at == turn) {
			*at = turn->next;
			return;
		}
	}
}
