/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "pool/catalogue/record_key.h"

void pool_ids_format_volume(uint64_t volume, char out[POOL_ID_MAX + 1])
{
	snprintf(out, POOL_ID_MAX + 1, "vol-%016" PRIx64, volume);
}

void pool_ids_format_snapshot(uint64_t volume, uint64_t number, char out[POOL_ID_MAX + 1])
{
	snprintf(out, POOL_ID_MAX + 1, "snap-%016" PRIx64 "-%" PRIu64, volume, number);
}

bool pool_ids_parse_volume(const char *text, uint64_t *ret_volume)
{
	return strncmp(text, "vol-", 4) == 0 && strlen(text) == 4 + LEDGER_HEX &&
	       pool_records_key_parse_hex(text + 4, LEDGER_HEX, ret_volume);
}

bool pool_ids_parse_snapshot(const char *text, uint64_t *ret_volume, uint64_t *ret_number)
{
	const char *digits = text + 5 + LEDGER_HEX + 1;

	if (strncmp(text, "snap-", 5) != 0 || strlen(text) < 5 + LEDGER_HEX + 2 ||
	    strlen(text) > POOL_ID_MAX)
		return false;
	if (!pool_records_key_parse_hex(text + 5, LEDGER_HEX, ret_volume) ||
	    text[5 + LEDGER_HEX] != '-')
		return false;
	return digits[0] != '0' && cairn_parse_u64(digits, ret_number, NULL) == 0;
}
