/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/extent_merge.h"

int pool_extent_merge_flush(struct extent_merge *joiner, struct cairn_err *err)
{
	struct block_extent held = joiner->held;

	if (held.length == 0)
		return 0;
	joiner->held.length = 0;
	return joiner->sink.emit(joiner->sink.arg, &held, err);
}

int pool_extent_merge_add(struct extent_merge *joiner, uint64_t offset, uint64_t length, bool zero,
			  struct cairn_err *err)
{
	struct block_extent *held = &joiner->held;
	int rc;

	if (length == 0)
		return 0;
	if (held->length > 0 && block_extent_end(held) == offset && held->zero == zero) {
		held->length += length;
		return 0;
	}
	rc = pool_extent_merge_flush(joiner, err);
	if (rc)
		return rc;
	*held = (struct block_extent){.offset = offset, .length = length, .zero = zero};
	return 0;
}
