/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/velero_message.h"

#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/text.h"

json_t *velero_message(const char *text)
{
	cairn_auto_free char *copy = cairn_strdup(text);
	size_t n = copy ? strlen(copy) : 0;
	size_t at = 0;

	while (at < n) {
		uint32_t c;
		size_t step = cairn_utf8_next(copy + at, n - at, &c);

		if (step == 0)
			copy[at] = '?';
		at += step ? step : 1;
	}
	return copy ? json_stringn(copy, n) : NULL;
}
