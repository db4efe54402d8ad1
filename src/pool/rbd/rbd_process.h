/* SPDX-License-Identifier: Apache-2.0 */

/* Which process a session belongs to, so that another one on the same host can see at once
 * that it has ended instead of waiting for an answer.
 *
 * A mark names the boot of the host, the namespace of process ids, the process and when it
 * was started: none of it is reused together.
 */
#ifndef CAIRN_POOL_RBD_PROCESS_H
#define CAIRN_POOL_RBD_PROCESS_H

#define RBD_PROCESS_MARK_MAX 128U

enum rbd_process_state {
	RBD_PROCESS_UNKNOWN, /* on another host, or in a container that cannot be seen from here */
	RBD_PROCESS_ENDED,
	RBD_PROCESS_RUNS,
};

/* The mark of this process, without spaces; "" if /proc does not have it. */
void rbd_process_mark(char out[RBD_PROCESS_MARK_MAX]);

enum rbd_process_state rbd_process_look(const char *mark);

#endif
