/* SPDX-License-Identifier: Apache-2.0 */

/* The loops in which a relay spends its time.
 *
 * All encoders write a tuple as: tag, length, offset, size. Two loops decode this form. The
 * first one decodes any such tuple; the position of the next tuple depends on the bytes of
 * this one, so the processor waits for each load. The second one expects the layout of the
 * tuple before: the same number of bytes for offset and size. It compares sixteen bytes with
 * a mask, and the next tuple begins at a constant distance. Neighbouring tuples mostly have
 * one layout, but if they do not, guessing it is slower than the first loop; so the second
 * loop is tried again only after a growing number of tuples.
 */

#include "proto/block_scan_impl.h"

#define TUPLE_TAG     (PROTO_BLOCK_FIELD_TUPLE << 3 | PROTO_WIRE_LEN)
#define OFFSET_TAG    (PROTO_BLOCK_TUPLE_OFFSET << 3 | PROTO_WIRE_VARINT)
#define LENGTH_TAG    (PROTO_BLOCK_TUPLE_LENGTH << 3 | PROTO_WIRE_VARINT)
#define MORE_BITS     0x8080808080808080ULL
#define DIGIT_BITS    0x7f7f7f7f7f7f7f7fULL
#define LAYOUT_BYTES  16 /* the longest tuple whose layout is compared */
#define OFFSET_AT     3
#define RUN_WORTH     16   /* tuples of one layout that pay for guessing it */
#define ANY_FIRST     8    /* tuples decoded one by one before the first guess */
#define ANY_MOST      1024 /* ... before a guess after many wrong ones */
#define READABLE_MORE (2 + PROTO_BLOCK_TUPLE_MAX + PROTO_BLOCK_SLACK)

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The scan's state in locals. */
struct fast {
	const uint8_t *pos;
	const uint8_t *stop; /* no tuple that begins after this is decoded here */
	uint64_t fixed_length;
	uint64_t end, tuples, bytes, differing, last;
};

/* The layout of a tuple: which bits have which value, and where the numbers are. */
struct layout {
	uint64_t mask[2], want[2];
	uint64_t offset_digits, length_digits;
	size_t length_at, bytes;
};

static ALWAYS_INLINE uint64_t load64(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return le64toh(word);
}

/* Joins the 7-bit groups of `v` that `digits` selects, from the first byte on. The PEXT
 * instruction replaces a dozen others; each loop is compiled once with it and once without. */
static ALWAYS_INLINE uint64_t fast_gather(uint64_t v, uint64_t digits, bool pext)
{
#if defined(__x86_64__)
	if (pext) {
		uint64_t ret;

		__asm__("pext %2, %1, %0" : "=r"(ret) : "r"(v), "r"(digits));
		return ret;
	}
#endif
	(void)pext;
	return proto_gather56(v & digits);
}

/* AMD's family 17h implements the instruction in microcode, which is slower than without. */
static inline bool has_pext(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("amdfam17h");
#else
	return false;
#endif
}

/* Counts a valid tuple. Numbers of eight bytes are below 2^56, so neither they nor their sum
 * are negative. */
static ALWAYS_INLINE bool fast_count(struct fast *f, uint64_t offset, uint64_t length)
{
	if (length == 0 || offset < f->end)
		return false;
	f->differing |= length ^ f->fixed_length;
	f->end = offset + length;
	f->bytes += length;
	f->tuples++;
	f->last = offset;
	return true;
}

/* --- any layout --- */

/* Decodes one number of at most eight bytes at `p`; returns the byte after it, or NULL. */
static ALWAYS_INLINE const uint8_t *number_usual(const uint8_t *p, uint64_t *ret, bool pext)
{
	uint64_t word = load64(p), stop = ~word & MORE_BITS;

	if (!stop)
		return NULL;
	*ret = fast_gather(word & (stop ^ (stop - 1)), DIGIT_BITS, pext);
	return p + __builtin_ctzll(stop) / 8 + 1;
}

/* Decodes the body of a tuple, from `p` to `end`, in the usual form: offset unless 0, then
 * size. False for any other form. Bytes after the body may be read but are ignored. */
static ALWAYS_INLINE bool tuple_parse_usual(const uint8_t *p, const uint8_t *end,
					    uint64_t *ret_offset, uint64_t *ret_length, bool pext)
{
	*ret_offset = 0;
	if (*p == OFFSET_TAG) {
		p = number_usual(p + 1, ret_offset, pext);
		if (!p)
			return false;
	}
	if (*p != LENGTH_TAG)
		return false;
	return number_usual(p + 1, ret_length, pext) == end;
}

/* Takes at most `max` tuples; returns 1 when it did, 0 when something else than a usual tuple
 * follows or the message nearly ends, or the return value of the sink. */
static ALWAYS_INLINE int fast_take_any(struct fast *f, uint64_t max, const struct block_sink *sink,
				       struct cairn_err *err, bool pext)
{
	for (uint64_t i = 0; i < max; i++) {
		const uint8_t *p = f->pos, *next;
		uint64_t offset, length;
		int rc;

		if (p > f->stop || p[0] != TUPLE_TAG || p[1] > PROTO_BLOCK_TUPLE_MAX)
			return 0;
		next = p + 2 + p[1];
		if (!tuple_parse_usual(p + 2, next, &offset, &length, pext) ||
		    !fast_count(f, offset, length))
			return 0;
		f->pos = next;
		rc = sink ? proto_block_emit(sink, offset, length, err) : 0;
		if (rc != 0)
			return rc;
	}
	return 1;
}

/* --- one layout --- */

/* Bytes of the number at `p`, or 0 if it has more than eight. */
static inline size_t number_bytes(const uint8_t *p)
{
	uint64_t stop = ~load64(p) & MORE_BITS;

	return stop ? (size_t)__builtin_ctzll(stop) / 8 + 1 : 0;
}

static inline uint64_t first_bytes(uint64_t bits, size_t n)
{
	return n >= 8 ? bits : bits & ((1ULL << (8 * n)) - 1);
}

/* Determines the layout of the tuple at `p`. False if it has none that the loop can use. */
static bool layout_of(const uint8_t *p, struct layout *ret)
{
	uint8_t mask[LAYOUT_BYTES] = {0};
	size_t offset_bytes, length_bytes, length_at, bytes;

	if (p[0] != TUPLE_TAG || p[2] != OFFSET_TAG)
		return false;
	offset_bytes = number_bytes(p + OFFSET_AT);
	length_at = OFFSET_AT + offset_bytes + 1;
	length_bytes = number_bytes(p + length_at);
	bytes = length_at + length_bytes;
	if (offset_bytes == 0 || length_bytes == 0 || bytes > LAYOUT_BYTES || p[1] != bytes - 2 ||
	    p[length_at - 1] != LENGTH_TAG)
		return false;
	memset(mask, 0x80, bytes);
	memset(mask, 0xff, OFFSET_AT);
	mask[length_at - 1] = 0xff;
	*ret = (struct layout){
		.mask = {load64(mask), load64(mask + 8)},
		.offset_digits = first_bytes(DIGIT_BITS, offset_bytes),
		.length_digits = first_bytes(DIGIT_BITS, length_bytes),
		.length_at = length_at,
		.bytes = bytes,
	};
	ret->want[0] = load64(p) & ret->mask[0];
	ret->want[1] = load64(p + 8) & ret->mask[1];
	return true;
}

/* Takes tuples while they have the layout of the first; returns how many. */
static ALWAYS_INLINE uint64_t fast_take_layout(struct fast *f, bool pext)
{
	uint64_t before = f->tuples;
	struct layout l;

	if (f->pos > f->stop || !layout_of(f->pos, &l))
		return 0;
	while (f->pos <= f->stop) {
		const uint8_t *p = f->pos;

		if (((load64(p) & l.mask[0]) ^ l.want[0]) |
		    ((load64(p + 8) & l.mask[1]) ^ l.want[1]))
			break;
		if (!fast_count(f, fast_gather(load64(p + OFFSET_AT), l.offset_digits, pext),
				fast_gather(load64(p + l.length_at), l.length_digits, pext)))
			break;
		f->pos = p + l.bytes;
	}
	return f->tuples - before;
}

/* --- both --- */

static ALWAYS_INLINE int fast_take(struct fast *f, const struct block_sink *sink,
				   struct cairn_err *err, bool pext)
{
	uint64_t any = ANY_FIRST;
	int rc;

	if (sink)
		return fast_take_any(f, UINT64_MAX, sink, err, pext);
	do {
		if (fast_take_layout(f, pext) >= RUN_WORTH)
			any = ANY_FIRST;
		else
			any = any * 2 < ANY_MOST ? any * 2 : ANY_MOST;
		rc = fast_take_any(f, any, NULL, err, pext);
	} while (rc == 1);
	return rc;
}

int proto_block_scan_fast(struct proto_block_scan *scan, struct proto_block_head *head,
			  struct proto_in *in, const struct block_sink *sink, struct cairn_err *err)
{
	struct fast f = {
		.pos = in->pos,
		.fixed_length = scan->fixed_length,
		.end = scan->end,
		.last = head->last_offset,
	};
	int rc;

	if (proto_in_left(in) < READABLE_MORE)
		return 0;
	f.stop = in->end - READABLE_MORE;
	rc = has_pext() ? fast_take(&f, sink, err, true) : fast_take(&f, sink, err, false);
	head->tuples += f.tuples;
	head->last_offset = f.last;
	scan->tuples += f.tuples;
	scan->bytes_reported += f.bytes;
	scan->end = f.end;
	scan->lengths_differ |= f.differing != 0;
	in->pos = f.pos;
	return rc;
}
