/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/ledger.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/ids.h"
#include "pool/ledger_key.h"

#define RECORD_BYTES_MAX 1024

static const struct catalogue_bytes absent = {NULL, 0};

/* A record that could not be encoded must never be put as an empty one. */
static void put_buf(struct catalogue_batch *batch, const struct ledger_key *key,
		    const struct cairn_buf *buf)
{
	if (cairn_buf_failed(buf))
		catalogue_batch_fail(batch, "record");
	else
		catalogue_put(batch, ledger_key_bytes(key),
			      (struct catalogue_bytes){buf->data, buf->len});
}

/* `buf` NULL: the key must not exist. */
static void expect_buf(struct catalogue_batch *batch, const struct ledger_key *key,
		       const struct cairn_buf *buf)
{
	if (buf && cairn_buf_failed(buf))
		catalogue_batch_fail(batch, "record");
	else
		catalogue_expect(batch, ledger_key_bytes(key),
				 buf ? (struct catalogue_bytes){buf->data, buf->len} : absent);
}

static struct catalogue_bytes nothing(void)
{
	return (struct catalogue_bytes){"", 0};
}

/* A number as an index value. */
static void put_number(struct catalogue_batch *batch, const struct ledger_key *key, uint64_t number)
{
	struct ledger_key value = ledger_key_number('#', number);

	catalogue_put(batch, ledger_key_bytes(key), ledger_key_bytes(&value));
}

static int get_number(struct catalogue *cat, const struct ledger_key *key, uint64_t *ret,
		      struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	int rc = catalogue_get(cat, ledger_key_bytes(key), &data, &n, err);

	if (rc)
		return rc;
	if (n != LEDGER_HEX + 2 || !ledger_key_parse_hex((const char *)data + 2, n - 2, ret))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an index entry makes no sense");
	return 0;
}

int ledger_volume_get(struct catalogue *cat, uint64_t volume, struct record_volume *ret,
		      struct cairn_err *err)
{
	struct ledger_key key = ledger_key_number('v', volume);
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	int rc = catalogue_get(cat, ledger_key_bytes(&key), &data, &n, err);

	return rc ? rc : record_volume_decode(data, n, ret, err);
}

int ledger_volume_by_name(struct catalogue *cat, const char *name, struct record_volume *ret,
			  struct cairn_err *err)
{
	struct ledger_key key = ledger_key_text('w', name);
	uint64_t volume;
	int rc = get_number(cat, &key, &volume, err);

	return rc ? rc : ledger_volume_get(cat, volume, ret, err);
}

int ledger_snapshot_get(struct catalogue *cat, uint64_t number, struct record_snapshot *ret,
			struct cairn_err *err)
{
	struct ledger_key key = ledger_key_number('s', number);
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	int rc = catalogue_get(cat, ledger_key_bytes(&key), &data, &n, err);

	return rc ? rc : record_snapshot_decode(data, n, ret, err);
}

int ledger_snapshot_by_name(struct catalogue *cat, uint64_t volume, const char *name,
			    struct record_snapshot *ret, struct cairn_err *err)
{
	struct ledger_key key = ledger_key_named('m', volume, name);
	uint64_t number;
	int rc = get_number(cat, &key, &number, err);

	return rc ? rc : ledger_snapshot_get(cat, number, ret, err);
}

static void put_volume_record(struct catalogue_batch *batch, uint64_t volume,
			      const struct record_volume *old, const struct record_volume *now)
{
	struct ledger_key key = ledger_key_number('v', volume);
	cairn_auto_buf struct cairn_buf before = CAIRN_BUF_INIT(RECORD_BYTES_MAX);
	cairn_auto_buf struct cairn_buf after = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	if (old)
		record_volume_encode(old, &before);
	expect_buf(batch, &key, old ? &before : NULL);
	if (!now) {
		catalogue_delete(batch, ledger_key_bytes(&key));
		return;
	}
	record_volume_encode(now, &after);
	put_buf(batch, &key, &after);
}

static bool volume_is_named(const struct record_volume *volume)
{
	return volume && !volume->deleted;
}

void ledger_volume_change(struct catalogue_batch *batch, const struct record_volume *old,
			  const struct record_volume *now)
{
	const struct record_volume *any = now ? now : old;
	struct ledger_key name = ledger_key_text('w', any->name);
	uint64_t volume = any->volume;
	uint64_t old_head = old ? old->head : 0;
	uint64_t new_head = now ? now->head : 0;

	put_volume_record(batch, volume, old, now);
	if (!old)
		catalogue_expect(batch, ledger_key_bytes(&name), absent);
	if (volume_is_named(now) && !volume_is_named(old))
		put_number(batch, &name, now->volume);
	if (!volume_is_named(now) && volume_is_named(old))
		catalogue_delete(batch, ledger_key_bytes(&name));
	if (old_head != new_head) {
		struct ledger_key was = ledger_key_pair('h', old_head, volume);
		struct ledger_key is = ledger_key_pair('h', new_head, volume);

		if (old_head)
			catalogue_delete(batch, ledger_key_bytes(&was));
		if (new_head)
			catalogue_put(batch, ledger_key_bytes(&is), nothing());
	}
}

static void put_snapshot_record(struct catalogue_batch *batch, const struct record_snapshot *old,
				const struct record_snapshot *now)
{
	struct ledger_key key = ledger_key_number('s', (now ? now : old)->number);
	cairn_auto_buf struct cairn_buf before = CAIRN_BUF_INIT(RECORD_BYTES_MAX);
	cairn_auto_buf struct cairn_buf after = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	if (old)
		record_snapshot_encode(old, &before);
	expect_buf(batch, &key, old ? &before : NULL);
	if (!now) {
		catalogue_delete(batch, ledger_key_bytes(&key));
		return;
	}
	record_snapshot_encode(now, &after);
	put_buf(batch, &key, &after);
}

/* One index of pairs: the entry follows the value that it is made of. */
static void move_entry(struct catalogue_batch *batch, char kind, bool was, uint64_t old_key,
		       bool is, uint64_t new_key, uint64_t member)
{
	struct ledger_key before = ledger_key_pair(kind, old_key, member);
	struct ledger_key after = ledger_key_pair(kind, new_key, member);

	if (was && is && old_key == new_key)
		return;
	if (was)
		catalogue_delete(batch, ledger_key_bytes(&before));
	if (is)
		catalogue_put(batch, ledger_key_bytes(&after), nothing());
}

/* The name stays with its newest holder: a tombstone keeps it until a new
 * snapshot takes it or the tombstone goes. */
static int drop_name(struct catalogue *cat, struct catalogue_batch *batch,
		     const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct ledger_key key = ledger_key_named('m', snapshot->volume, snapshot->name);
	uint64_t holder;
	int rc = get_number(cat, &key, &holder, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return rc;
	if (holder == snapshot->number)
		catalogue_delete(batch, ledger_key_bytes(&key));
	return 0;
}

int ledger_snapshot_change(struct catalogue *cat, struct catalogue_batch *batch,
			   const struct record_snapshot *old, const struct record_snapshot *now,
			   struct cairn_err *err)
{
	const struct record_snapshot *any = now ? now : old;

	put_snapshot_record(batch, old, now);
	move_entry(batch, 'l', old != NULL, any->volume, now != NULL, any->volume, any->number);
	move_entry(batch, 'c', old && old->parent, old ? old->parent : 0, now && now->parent,
		   now ? now->parent : 0, any->number);
	move_entry(batch, 't', old && old->deleted, old ? old->expires_ns : 0, now && now->deleted,
		   now ? now->expires_ns : 0, any->number);
	if (!old && now->name[0]) {
		struct ledger_key key = ledger_key_named('m', now->volume, now->name);

		put_number(batch, &key, now->number);
	}
	if (!now && old->name[0])
		return drop_name(cat, batch, old, err);
	return 0;
}

int ledger_last_number(struct catalogue *cat, uint64_t *ret, struct cairn_err *err)
{
	struct ledger_key key = ledger_key_kind('n');
	int rc = get_number(cat, &key, ret, err);

	if (rc == CAIRN_NOT_FOUND) {
		*ret = 0;
		return 0;
	}
	return rc;
}

int ledger_take_numbers(struct catalogue *cat, struct catalogue_batch *batch, size_t n,
			uint64_t *ret_first, struct cairn_err *err)
{
	struct ledger_key key = ledger_key_kind('n');
	struct ledger_key old;
	uint64_t last;
	int rc = ledger_last_number(cat, &last, err);

	if (rc)
		return rc;
	old = ledger_key_number('#', last);
	catalogue_expect(batch, ledger_key_bytes(&key), last ? ledger_key_bytes(&old) : absent);
	put_number(batch, &key, last + n);
	*ret_first = last + 1;
	return 0;
}

void ledger_set_last_number(struct catalogue_batch *batch, uint64_t number)
{
	struct ledger_key key = ledger_key_kind('n');

	put_number(batch, &key, number);
}

void ledger_leftover_add(struct catalogue_batch *batch, const char *id)
{
	struct ledger_key key = ledger_key_text('i', id);

	catalogue_put(batch, ledger_key_bytes(&key), nothing());
}

void ledger_leftover_clear(struct catalogue_batch *batch, const char *id)
{
	struct ledger_key key = ledger_key_text('i', id);

	catalogue_delete(batch, ledger_key_bytes(&key));
}

int ledger_leftover_listed(struct catalogue *cat, const char *id, bool *ret, struct cairn_err *err)
{
	struct ledger_key key = ledger_key_text('i', id);
	cairn_auto_free uint8_t *value = NULL;
	size_t len;
	int rc = catalogue_get(cat, ledger_key_bytes(&key), &value, &len, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	*ret = rc == 0;
	return 0;
}

void ledger_volume_reindex(struct catalogue_batch *batch, const struct record_volume *volume)
{
	struct ledger_key name = ledger_key_text('w', volume->name);

	if (volume_is_named(volume))
		put_number(batch, &name, volume->volume);
	move_entry(batch, 'h', false, 0, volume->head != 0, volume->head, volume->volume);
}

void ledger_snapshot_reindex(struct catalogue_batch *batch, const struct record_snapshot *snapshot)
{
	move_entry(batch, 'l', false, 0, true, snapshot->volume, snapshot->number);
	move_entry(batch, 'c', false, 0, snapshot->parent != 0, snapshot->parent, snapshot->number);
	move_entry(batch, 't', false, 0, snapshot->deleted, snapshot->expires_ns, snapshot->number);
	if (snapshot->name[0]) {
		struct ledger_key key = ledger_key_named('m', snapshot->volume, snapshot->name);

		put_number(batch, &key, snapshot->number);
	}
}
