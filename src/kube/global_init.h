/* SPDX-License-Identifier: Apache-2.0 */

/* One-time setup of the libraries that kube uses. */
#ifndef CAIRN_KUBE_LIBRARY_H
#define CAIRN_KUBE_LIBRARY_H

#include <stdbool.h>

/* Makes jansson allocate through base/mem.h and initializes libcurl. Idempotent; from any
 * thread. */
void kube_global_init(void);

/* True if an allocation by jansson failed in this thread since the last call. jansson
 * reports that as invalid input. */
bool kube_global_starved(void);

#endif
