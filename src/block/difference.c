/* SPDX-License-Identifier: Apache-2.0 */

#include "block/difference.h"

#include "base/err.h"
#include "base/mem.h"
#include "block/set.h"

#define BATCH 256U

struct side {
	struct block_set_reader *reader;
	struct block_extent batch[BATCH];
	size_t next;
	size_t len;
};

struct block_difference {
	struct side from;
	struct side without;
};

int block_difference_new(struct block_set_reader *from, struct block_set_reader *without,
			 struct block_difference **ret, struct cairn_err *err)
{
	struct block_difference *difference = cairn_calloc(1, sizeof(*difference));

	if (!difference) {
		block_set_reader_free(from);
		block_set_reader_free(without);
		return cairn_err_nomem(err, "difference of change sets");
	}
	difference->from.reader = from;
	difference->without.reader = without;
	*ret = difference;
	return 0;
}

void block_difference_free(struct block_difference *difference)
{
	block_set_reader_free(difference->from.reader);
	block_set_reader_free(difference->without.reader);
	free(difference);
}

/* Returns the current extent of a side, or NULL at its end. */
static int difference_peek(struct side *side, struct block_extent **ret, struct cairn_err *err)
{
	int rc = 0;

	if (side->next == side->len) {
		side->next = 0;
		rc = block_set_reader_next(side->reader, side->batch, BATCH, &side->len, err);
	}
	*ret = rc == 0 && side->next < side->len ? &side->batch[side->next] : NULL;
	return rc;
}

/* Returns the first extent of `without` that ends after `offset`, or NULL. */
static int peek_after(struct side *without, uint64_t offset, struct block_extent **ret,
		      struct cairn_err *err)
{
	int rc = difference_peek(without, ret, err);

	while (rc == 0 && *ret && block_extent_end(*ret) <= offset) {
		without->next++;
		rc = difference_peek(without, ret, err);
	}
	return rc;
}

/* Removes the front of `extent` up to `offset`; true if something is left. */
static bool drop_front(struct block_extent *extent, uint64_t offset)
{
	uint64_t end = block_extent_end(extent);

	if (offset >= end)
		return false;
	extent->offset = offset;
	extent->length = end - offset;
	return true;
}

int block_difference_next(struct block_difference *difference, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err)
{
	size_t n = 0;

	while (n < max) {
		struct block_extent *piece;
		struct block_extent *hole;
		uint64_t done;
		int rc = difference_peek(&difference->from, &piece, err);

		if (!rc && piece)
			rc = peek_after(&difference->without, piece->offset, &hole, err);
		if (rc)
			return rc;
		if (!piece)
			break;
		done = block_extent_end(piece);
		if (hole && hole->offset <= piece->offset) {
			done = block_extent_end(hole);
		} else {
			if (hole && hole->offset < done)
				done = hole->offset;
			out[n++] = (struct block_extent){.offset = piece->offset,
							 .length = done - piece->offset,
							 .zero = piece->zero};
		}
		if (!drop_front(piece, done))
			difference->from.next++;
	}
	*ret_n = n;
	return 0;
}
