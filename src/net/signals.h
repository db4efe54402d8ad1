/* SPDX-License-Identifier: Apache-2.0 */

/* Signals as values: a role's main thread waits for the next one in sequential
 * code, and nothing runs in signal context. */
#ifndef CAIRN_NET_SIGNALS_H
#define CAIRN_NET_SIGNALS_H

#include <signal.h>
#include <stdint.h>

struct cairn_err;

/* Blocks SIGTERM, SIGINT, SIGHUP and SIGUSR1 in the calling thread and every
 * thread it starts afterwards, and ignores SIGPIPE. Call it first in main(). */
void net_signals_block(sigset_t *ret_set);

/* Waits for one of `set`, at most `wait_ms` (UINT64_MAX: no limit). Returns its
 * number, or 0 on timeout. */
int net_signals_wait(const sigset_t *set, uint64_t wait_ms);

#endif
