/* SPDX-License-Identifier: Apache-2.0 */

/* Where TLS records end: follows record headers only.
 *
 * OpenSSL takes 33 KiB for a connection as soon as it has seen one byte of a record,
 * and holds half of that until the record is complete. A server that hands it only
 * complete records of strangers keeps of the others the bytes that came.
 */
#ifndef CAIRN_NET_RECORDS_H
#define CAIRN_NET_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define NET_RECORD_HEAD_BYTES 5U
#define NET_RECORD_BYTES_MAX  (NET_RECORD_HEAD_BYTES + (16U << 10) + 2048U)

/* How many of the `n` bytes, which begin with a record, are complete records. All of
 * them when they can not be TLS, so that OpenSSL says so at once. */
size_t net_records_whole(const uint8_t *data, size_t n);

#endif
