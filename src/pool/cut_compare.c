/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/cut_compare.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/store/store.h"

#define CHUNK (64U << 10)

struct probe {
	struct store_reader *first, *second;
	uint8_t *bytes; /* a chunk of each */
	bool differ;
};

static int cut_compare_chunk(struct probe *probe, uint64_t offset, size_t n, struct cairn_err *err)
{
	size_t a, b;
	int rc = pool_store_reader_read(probe->first, offset, probe->bytes, n, &a, err);

	if (!rc)
		rc = pool_store_reader_read(probe->second, offset, probe->bytes + CHUNK, n, &b,
					    err);
	if (!rc)
		probe->differ = a != b || memcmp(probe->bytes, probe->bytes + CHUNK, a) != 0;
	return rc;
}

static int compare_extent(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct probe *probe = arg;
	uint64_t end = block_extent_end(extent);

	for (uint64_t at = extent->offset; at < end; at += CHUNK) {
		size_t n = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		int rc = cut_compare_chunk(probe, at, n, err);

		if (rc)
			return rc;
		if (probe->differ)
			return cairn_err_set(err, CAIRN_CANCELLED, "changed");
	}
	return 0;
}

int pool_cuts_are_same(struct store *store, const char *first_id, const char *second_id,
		       bool *ret_same, struct cairn_err *err)
{
	cairn_cleanup(pool_store_reader_freep) struct store_reader *first = NULL;
	cairn_cleanup(pool_store_reader_freep) struct store_reader *second = NULL;
	cairn_auto_free uint8_t *bytes = cairn_alloc(2 * (size_t)CHUNK);
	struct probe probe = {.bytes = bytes};
	struct store_delta_stats stats;
	int rc;

	if (!bytes)
		return cairn_err_nomem(err, "comparison");
	rc = pool_store_reader_open(store, (struct store_ref){STORE_SNAPSHOT, first_id}, &first,
				    err);
	if (!rc)
		rc = pool_store_reader_open(store, (struct store_ref){STORE_SNAPSHOT, second_id},
					    &second, err);
	if (rc)
		return rc;
	probe.first = first;
	probe.second = second;
	rc = pool_store_delta(store, first_id, second_id,
			      (struct block_sink){.emit = compare_extent, .arg = &probe}, NULL,
			      &stats, err);
	if (rc && !probe.differ)
		return rc;
	*ret_same = !probe.differ;
	return 0;
}
