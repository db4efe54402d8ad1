/* SPDX-License-Identifier: Apache-2.0 */

/* The libraries below, set up once for the process. */
#ifndef CAIRN_KUBE_LIBRARY_H
#define CAIRN_KUBE_LIBRARY_H

#include <stdbool.h>

/* Makes jansson allocate through base/mem.h and sets libcurl up. From any
 * thread, any number of times. */
void kube_library_init(void);

/* True if jansson, in this thread, was refused memory since the last time this
 * was asked: it reports that as bad input. */
bool kube_library_starved(void);

#endif
