/* SPDX-License-Identifier: Apache-2.0 */

/* The libraries below, set up once for the process. */
#ifndef CAIRN_KUBE_LIBRARY_H
#define CAIRN_KUBE_LIBRARY_H

/* Makes jansson allocate through base/mem.h and sets libcurl up. From any
 * thread, any number of times. */
void kube_library_init(void);

#endif
