/* SPDX-License-Identifier: Apache-2.0 */

/* A thread in which every signal is blocked: only the program's first threads handle signals,
 * and a write to a closed socket fails with EPIPE instead of ending the process. */
#ifndef CAIRN_BASE_THREAD_H
#define CAIRN_BASE_THREAD_H

#include <pthread.h>

/* `attr` and `name` (at most 15 bytes) may be NULL. A detached thread has no name: it may have
 * ended when it is set. Returns 0 or an errno, which pthread_create() returned. */
int cairn_thread_start(pthread_t *ret, const pthread_attr_t *attr, const char *name,
		       void *(*run)(void *arg), void *arg);

#endif
