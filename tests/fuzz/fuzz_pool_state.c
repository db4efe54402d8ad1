/* SPDX-License-Identifier: Apache-2.0 */

/* What a pool keeps of itself: records of volumes and snapshots, the marker
 * file, ids. What is accepted must come out of the encoder as it went in, or,
 * where several forms mean the same, decode to the same again.
 *
 * The first byte chooses the decoder. A marker's checksum is put right first, so
 * that the fuzzer gets behind it. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "block/checksum.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record.h"
#include "pool/pool_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 8192

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check_volume(const uint8_t *data, size_t n)
{
	cairn_auto_buf struct cairn_buf first = CAIRN_BUF_INIT(INPUT_MAX);
	cairn_auto_buf struct cairn_buf second = CAIRN_BUF_INIT(INPUT_MAX);
	struct record_volume volume, again;
	struct cairn_err err = {0};

	if (pool_record_volume_decode(data, n, &volume, &err) != 0) {
		must(err.code == CAIRN_DATA_LOSS || err.code == CAIRN_UNIMPLEMENTED);
		return;
	}
	pool_record_volume_encode(&volume, &first);
	must(pool_record_volume_decode(first.data, first.len, &again, NULL) == 0);
	pool_record_volume_encode(&again, &second);
	must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

static void check_snapshot(const uint8_t *data, size_t n)
{
	cairn_auto_buf struct cairn_buf first = CAIRN_BUF_INIT(INPUT_MAX);
	cairn_auto_buf struct cairn_buf second = CAIRN_BUF_INIT(INPUT_MAX);
	struct record_snapshot snapshot, again;
	struct cairn_err err = {0};

	if (pool_record_snapshot_decode(data, n, &snapshot, &err) != 0) {
		must(err.code == CAIRN_DATA_LOSS || err.code == CAIRN_UNIMPLEMENTED);
		return;
	}
	pool_record_snapshot_encode(&snapshot, &first);
	must(pool_record_snapshot_decode(first.data, first.len, &again, NULL) == 0);
	pool_record_snapshot_encode(&again, &second);
	must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

static void check_marker(const uint8_t *data, size_t n)
{
	char text[INPUT_MAX + 64];
	struct marker marker;
	struct cairn_err err = {0};
	int rc;

	memcpy(text, data, n);
	snprintf(text + n, sizeof(text) - n, "checksum %016" PRIx64 "\n", block_checksum(data, n));
	rc = pool_config_decode(text, strnlen(text, sizeof(text)), &marker, &err);
	must(rc == 0 || rc == CAIRN_DATA_LOSS || rc == CAIRN_UNIMPLEMENTED);
	must(rc != 0 || (marker.backend[0] && marker.image[0] && marker.granularity));
}

static void check_id(const uint8_t *data, size_t n)
{
	char text[INPUT_MAX + 1];
	char again[POOL_ID_MAX + 1];
	uint64_t volume, number;

	memcpy(text, data, n);
	text[n] = '\0';
	if (pool_ids_parse_volume(text, &volume)) {
		pool_ids_format_volume(volume, again);
		must(strcmp(text, again) == 0);
	}
	if (pool_ids_parse_snapshot(text, &volume, &number)) {
		pool_ids_format_snapshot(volume, number, again);
		must(strcmp(text, again) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const uint8_t *, size_t) = {check_volume, check_snapshot,
								  check_marker, check_id};

	if (size > 0 && size <= INPUT_MAX)
		checks[data[0] % 4](data + 1, size - 1);
	return 0;
}
