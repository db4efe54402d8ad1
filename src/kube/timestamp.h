/* SPDX-License-Identifier: Apache-2.0 */

/* Times in Kubernetes' format: RFC 3339 with seconds or microseconds. */
#ifndef CAIRN_KUBE_TIMESTAMP_H
#define CAIRN_KUBE_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#define KUBE_TIME_MAX 32

/* metav1.Time: 2026-11-15T08:30:00Z; metav1.MicroTime: …00.000000Z. Return `out`. */
const char *kube_time(uint64_t ns_since_epoch, char out[KUBE_TIME_MAX]);
const char *kube_time_micro(uint64_t ns_since_epoch, char out[KUBE_TIME_MAX]);

/* Accepts any RFC 3339 time since 1970, with fraction and zone. Returns false for anything
 * else, including NULL. */
bool kube_time_parse(const char *text, uint64_t *ret_ns);

#endif
