/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/record.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "block/set.h"

#define RECORD_VERSION 1

/* A volume whose restore is not finished: one more field. Older programs, which do
 * not know the field, must not attach the volume; hence a separate version. */
#define RECORD_VERSION_RESTORING 2

static void record_add_text(struct cairn_buf *out, const char *text)
{
	size_t n = strlen(text);

	cairn_buf_add_varint(out, n);
	cairn_buf_add(out, text, n);
}

void pool_record_volume_encode(const struct record_volume *volume, struct cairn_buf *out)
{
	cairn_buf_addc(out, volume->restoring[0] ? RECORD_VERSION_RESTORING : RECORD_VERSION);
	cairn_buf_add_varint(out, volume->volume);
	record_add_text(out, volume->name);
	cairn_buf_add_varint(out, volume->size);
	cairn_buf_add_varint(out, volume->created_ns);
	cairn_buf_add_varint(out, volume->origin);
	cairn_buf_add_varint(out, volume->origin_volume);
	cairn_buf_add_varint(out, volume->head);
	cairn_buf_add_varint(out, volume->deleted);
	cairn_buf_add_varint(out, volume->retention_ms);
	cairn_buf_add_varint(out, volume->granularity);
	if (volume->restoring[0])
		record_add_text(out, volume->restoring);
}

void pool_record_snapshot_encode(const struct record_snapshot *snapshot, struct cairn_buf *out)
{
	cairn_buf_addc(out, RECORD_VERSION);
	cairn_buf_add_varint(out, snapshot->number);
	cairn_buf_add_varint(out, snapshot->volume);
	record_add_text(out, snapshot->name);
	cairn_buf_add_varint(out, snapshot->size);
	cairn_buf_add_varint(out, snapshot->created_ns);
	cairn_buf_add_varint(out, snapshot->parent);
	cairn_buf_add_varint(out, snapshot->parent_volume);
	cairn_buf_add_varint(out, snapshot->deleted);
	cairn_buf_add_varint(out, snapshot->has_data);
	cairn_buf_add_varint(out, snapshot->expires_ns);
	cairn_buf_add_varint(out, snapshot->revision);
	cairn_buf_add_varint(out, snapshot->set);
	cairn_buf_add_varint(out, snapshot->set_generation);
	cairn_buf_add_varint(out, snapshot->set_extents);
	cairn_buf_add_varint(out, snapshot->set_changed_bytes);
	cairn_buf_add_varint(out, snapshot->set_zero_bytes);
}

/* Reads fields one after the other; the first invalid one is sticky. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static uint64_t record_take_number(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (c->at == c->end)
			break;
		byte = *c->at++;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	c->bad = true;
	return 0;
}

static uint64_t take_at_most(struct cursor *c, uint64_t max)
{
	uint64_t value = record_take_number(c);

	if (value > max)
		c->bad = true;
	return value;
}

static void record_take_text(struct cursor *c, char *out, size_t max)
{
	uint64_t n = take_at_most(c, max);

	if (c->bad || n > (uint64_t)(c->end - c->at) ||
	    !cairn_text_printable((const char *)c->at, n)) {
		c->bad = true;
		return;
	}
	memcpy(out, c->at, n);
	out[n] = '\0';
	c->at += n;
}

static int record_begin(struct cursor *c, const uint8_t *data, size_t n, uint8_t newest,
			struct cairn_err *err)
{
	if (n == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a record is empty");
	if (data[0] < RECORD_VERSION || data[0] > newest)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "a record has version %u, this program supports %u", data[0],
				     newest);
	*c = (struct cursor){.at = data + 1, .end = data + n};
	return 0;
}

static int record_finish(const struct cursor *c, struct cairn_err *err)
{
	if (c->bad || c->at != c->end)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a record makes no sense");
	return 0;
}

int pool_record_volume_decode(const uint8_t *data, size_t n, struct record_volume *ret,
			      struct cairn_err *err)
{
	struct record_volume v = {0};
	struct cursor c;
	int rc = record_begin(&c, data, n, RECORD_VERSION_RESTORING, err);

	if (rc)
		return rc;
	v.volume = record_take_number(&c);
	record_take_text(&c, v.name, POOL_NAME_MAX);
	v.size = take_at_most(&c, POOL_VOLUME_SIZE_MAX);
	v.created_ns = record_take_number(&c);
	v.origin = record_take_number(&c);
	v.origin_volume = record_take_number(&c);
	v.head = record_take_number(&c);
	v.deleted = take_at_most(&c, 1) != 0;
	v.retention_ms = record_take_number(&c);
	v.granularity = (uint32_t)take_at_most(&c, BLOCK_GRANULARITY_MAX);
	if (data[0] == RECORD_VERSION_RESTORING)
		record_take_text(&c, v.restoring, POOL_RESTORING_MAX);
	if (data[0] == RECORD_VERSION_RESTORING && !v.restoring[0])
		c.bad = true;
	rc = record_finish(&c, err);
	if (rc)
		return cairn_err_wrap(err, "volume record");
	*ret = v;
	return 0;
}

int pool_record_snapshot_decode(const uint8_t *data, size_t n, struct record_snapshot *ret,
				struct cairn_err *err)
{
	struct record_snapshot s = {0};
	struct cursor c;
	int rc = record_begin(&c, data, n, RECORD_VERSION, err);

	if (rc)
		return rc;
	s.number = record_take_number(&c);
	s.volume = record_take_number(&c);
	record_take_text(&c, s.name, POOL_NAME_MAX);
	s.size = take_at_most(&c, POOL_VOLUME_SIZE_MAX);
	s.created_ns = record_take_number(&c);
	s.parent = record_take_number(&c);
	s.parent_volume = record_take_number(&c);
	s.deleted = take_at_most(&c, 1) != 0;
	s.has_data = take_at_most(&c, 1) != 0;
	s.expires_ns = record_take_number(&c);
	s.revision = record_take_number(&c);
	s.set = (enum pool_set_state)take_at_most(&c, POOL_SET_LOST);
	s.set_generation = record_take_number(&c);
	s.set_extents = record_take_number(&c);
	s.set_changed_bytes = record_take_number(&c);
	s.set_zero_bytes = record_take_number(&c);
	rc = record_finish(&c, err);
	if (rc)
		return cairn_err_wrap(err, "snapshot record");
	*ret = s;
	return 0;
}
