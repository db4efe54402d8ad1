/* SPDX-License-Identifier: Apache-2.0 */

/* The header of a pack. What is accepted fills the pack, and encodes to the same
 * bytes. The first two bytes say how long the blobs are. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "repo/pack_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cairn_buf again = CAIRN_BUF_INIT(REPO_PACK_HEADER_MAX);
	struct repo_pack_blob *blobs = NULL;
	uint64_t body, sum = 0;
	size_t n = 0;

	if (size < 2)
		return 0;
	body = (uint64_t)data[0] << 8 | data[1];
	if (repo_pack_header_decode(data + 2, size - 2, body, &blobs, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		must(blobs[i].offset == sum);
		sum += blobs[i].length;
	}
	must(sum == body);
	repo_pack_header_encode(blobs, n, &again);
	must(again.len == size - 2 && (n == 0 || memcmp(again.data, data + 2, size - 2) == 0));
	cairn_buf_done(&again);
	free(blobs);
	return 0;
}
