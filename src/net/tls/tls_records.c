/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_records.h"

#include <stdbool.h>

#define TYPE_FIRST    20 /* change cipher spec, alert, handshake, data */
#define TYPE_LAST     23
#define VERSION_MAJOR 3

/* True if the `n` bytes can be the beginning of a record. */
static bool tls_records_is_head(const uint8_t *data, size_t n)
{
	return (n < 1 || (data[0] >= TYPE_FIRST && data[0] <= TYPE_LAST)) &&
	       (n < 2 || data[1] == VERSION_MAJOR);
}

size_t net_records_whole(const uint8_t *data, size_t n)
{
	size_t at = 0;

	while (at < n) {
		size_t left = n - at;
		size_t record;

		if (!tls_records_is_head(data + at, left))
			return n;
		if (left < NET_RECORD_HEAD_BYTES)
			break;
		record = NET_RECORD_HEAD_BYTES + ((size_t)data[at + 3] << 8 | data[at + 4]);
		if (record > NET_RECORD_BYTES_MAX)
			return n;
		if (left < record)
			break;
		at += record;
	}
	return at;
}
