/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/records.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"

#define RECORD_BYTES_MAX 1024

/* More numbers than are ever assigned. */
#define NUMBER_FAR (1ULL << 40)

static const struct catalogue_bytes absent = {NULL, 0};

/* A record that could not be encoded must never be put as an empty one. */
static void put_buf(struct catalogue_batch *batch, const struct ledger_key *key,
		    const struct cairn_buf *buf)
{
	if (cairn_buf_failed(buf))
		pool_catalogue_batch_fail(batch, "record");
	else
		pool_catalogue_put(batch, pool_records_key_bytes(key),
				   (struct catalogue_bytes){buf->data, buf->len});
}

/* `buf` NULL: the key must not exist. */
static void expect_buf(struct catalogue_batch *batch, const struct ledger_key *key,
		       const struct cairn_buf *buf)
{
	if (buf && cairn_buf_failed(buf))
		pool_catalogue_batch_fail(batch, "record");
	else
		pool_catalogue_expect(batch, pool_records_key_bytes(key),
				      buf ? (struct catalogue_bytes){buf->data, buf->len} : absent);
}

static struct catalogue_bytes records_nothing(void)
{
	return (struct catalogue_bytes){"", 0};
}

/* A number as an index value. */
static void records_put_number(struct catalogue_batch *batch, const struct ledger_key *key,
			       uint64_t number)
{
	struct ledger_key value = pool_records_key_number('#', number);

	pool_catalogue_put(batch, pool_records_key_bytes(key), pool_records_key_bytes(&value));
}

static int parse_number(const uint8_t *data, size_t n, uint64_t *ret, struct cairn_err *err)
{
	if (n != LEDGER_HEX + 2 || !pool_records_key_parse_hex((const char *)data + 2, n - 2, ret))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an index entry makes no sense");
	return 0;
}

static int records_get_number(struct catalogue *cat, const struct ledger_key *key, uint64_t *ret,
			      struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(key), &data, &n, err);

	return rc ? rc : parse_number(data, n, ret, err);
}

int pool_records_volume_get(struct catalogue *cat, uint64_t volume, struct record_volume *ret,
			    struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_number('v', volume);
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	struct record_volume record;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&key), &data, &n, err);

	if (!rc)
		rc = pool_record_volume_decode(data, n, &record, err);
	if (!rc && record.volume != volume)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "a volume has the record of another");
	if (!rc)
		*ret = record;
	return rc;
}

/* An entry of an index and the record that it names are removed in one commit. */
static int index_without_record(const char *what, uint64_t number, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "an index names %s %llx, which has no record; run: cairn pool check",
			     what, (unsigned long long)number);
}

int pool_records_volume_by_name(struct catalogue *cat, const char *name, struct record_volume *ret,
				struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_text('w', name);
	uint64_t before;
	uint64_t volume;
	int rc = records_get_number(cat, &key, &volume, err);

	/* A volume may be removed just when a new one takes its name. */
	while (rc == 0) {
		rc = pool_records_volume_get(cat, volume, ret, err);
		if (rc != CAIRN_NOT_FOUND)
			return rc;
		before = volume;
		rc = records_get_number(cat, &key, &volume, err);
		if (rc == 0 && volume == before)
			return index_without_record("volume", volume, err);
	}
	return rc;
}

int pool_records_snapshot_get(struct catalogue *cat, uint64_t number, struct record_snapshot *ret,
			      struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_number('s', number);
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	struct record_snapshot record;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&key), &data, &n, err);

	if (!rc)
		rc = pool_record_snapshot_decode(data, n, &record, err);
	if (!rc && record.number != number)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "a snapshot has the record of another");
	if (!rc)
		*ret = record;
	return rc;
}

int pool_records_snapshot_by_name(struct catalogue *cat, uint64_t volume, const char *name,
				  struct record_snapshot *ret, struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_named('m', volume, name);
	uint64_t before;
	uint64_t number;
	int rc = records_get_number(cat, &key, &number, err);

	/* A tombstone may be removed just when a new snapshot takes its
	 * name. */
	while (rc == 0) {
		rc = pool_records_snapshot_get(cat, number, ret, err);
		if (rc != CAIRN_NOT_FOUND)
			return rc;
		before = number;
		rc = records_get_number(cat, &key, &number, err);
		if (rc == 0 && number == before)
			return index_without_record("snapshot", number, err);
	}
	return rc;
}

static void put_volume_record(struct catalogue_batch *batch, uint64_t volume,
			      const struct record_volume *old, const struct record_volume *now)
{
	struct ledger_key key = pool_records_key_number('v', volume);
	cairn_auto_buf struct cairn_buf before = CAIRN_BUF_INIT(RECORD_BYTES_MAX);
	cairn_auto_buf struct cairn_buf after = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	if (old)
		pool_record_volume_encode(old, &before);
	expect_buf(batch, &key, old ? &before : NULL);
	if (!now) {
		pool_catalogue_delete(batch, pool_records_key_bytes(&key));
		return;
	}
	pool_record_volume_encode(now, &after);
	put_buf(batch, &key, &after);
}

static bool volume_is_named(const struct record_volume *volume)
{
	return volume && !volume->deleted;
}

void pool_records_volume_change(struct catalogue_batch *batch, const struct record_volume *old,
				const struct record_volume *now)
{
	const struct record_volume *any = now ? now : old;
	struct ledger_key name = pool_records_key_text('w', any->name);
	uint64_t volume = any->volume;
	uint64_t old_head = old ? old->head : 0;
	uint64_t new_head = now ? now->head : 0;

	put_volume_record(batch, volume, old, now);
	if (!old)
		pool_catalogue_expect(batch, pool_records_key_bytes(&name), absent);
	if (volume_is_named(now) && !volume_is_named(old))
		records_put_number(batch, &name, now->volume);
	if (!volume_is_named(now) && volume_is_named(old))
		pool_catalogue_delete(batch, pool_records_key_bytes(&name));
	if (old_head != new_head) {
		struct ledger_key was = pool_records_key_pair('h', old_head, volume);
		struct ledger_key is = pool_records_key_pair('h', new_head, volume);

		if (old_head)
			pool_catalogue_delete(batch, pool_records_key_bytes(&was));
		if (new_head)
			pool_catalogue_put(batch, pool_records_key_bytes(&is), records_nothing());
	}
}

static void put_snapshot_record(struct catalogue_batch *batch, const struct record_snapshot *old,
				const struct record_snapshot *now)
{
	struct ledger_key key = pool_records_key_number('s', (now ? now : old)->number);
	cairn_auto_buf struct cairn_buf before = CAIRN_BUF_INIT(RECORD_BYTES_MAX);
	cairn_auto_buf struct cairn_buf after = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	if (old)
		pool_record_snapshot_encode(old, &before);
	expect_buf(batch, &key, old ? &before : NULL);
	if (!now) {
		pool_catalogue_delete(batch, pool_records_key_bytes(&key));
		return;
	}
	pool_record_snapshot_encode(now, &after);
	put_buf(batch, &key, &after);
}

/* Updates one index of pairs after a change of the value that it is derived
 * from. */
static void move_entry(struct catalogue_batch *batch, char kind, bool was, uint64_t old_key,
		       bool is, uint64_t new_key, uint64_t member)
{
	struct ledger_key before = pool_records_key_pair(kind, old_key, member);
	struct ledger_key after = pool_records_key_pair(kind, new_key, member);

	if (was && is && old_key == new_key)
		return;
	if (was)
		pool_catalogue_delete(batch, pool_records_key_bytes(&before));
	if (is)
		pool_catalogue_put(batch, pool_records_key_bytes(&after), records_nothing());
}

/* The name stays with its newest holder: a tombstone keeps it until a new
 * snapshot takes it or the tombstone is removed. */
static int drop_name(struct catalogue *cat, struct catalogue_batch *batch,
		     const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_named('m', snapshot->volume, snapshot->name);
	uint64_t holder;
	int rc = records_get_number(cat, &key, &holder, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return rc;
	if (holder == snapshot->number)
		pool_catalogue_delete(batch, pool_records_key_bytes(&key));
	return 0;
}

int pool_records_snapshot_change(struct catalogue *cat, struct catalogue_batch *batch,
				 const struct record_snapshot *old,
				 const struct record_snapshot *now, struct cairn_err *err)
{
	const struct record_snapshot *any = now ? now : old;

	put_snapshot_record(batch, old, now);
	move_entry(batch, 'l', old != NULL, any->volume, now != NULL, any->volume, any->number);
	move_entry(batch, 'c', old && old->parent, old ? old->parent : 0, now && now->parent,
		   now ? now->parent : 0, any->number);
	move_entry(batch, 't', old && old->deleted, old ? old->expires_ns : 0, now && now->deleted,
		   now ? now->expires_ns : 0, any->number);
	if (!old && now->name[0]) {
		struct ledger_key key = pool_records_key_named('m', now->volume, now->name);

		records_put_number(batch, &key, now->number);
	}
	if (!now && old->name[0])
		return drop_name(cat, batch, old, err);
	return 0;
}

int pool_records_is_listed(struct catalogue *cat, uint64_t volume, uint64_t number, bool *ret,
			   struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_pair(LEDGER_SNAPSHOTS, volume, number);
	cairn_auto_free uint8_t *data = NULL;
	size_t n;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&key), &data, &n, err);

	/* A damaged entry is one too. */
	*ret = rc == 0 || rc == CAIRN_DATA_LOSS;
	return *ret || rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int pool_records_last_number(struct catalogue *cat, uint64_t *ret, struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_kind('n');
	int rc = records_get_number(cat, &key, ret, err);

	if (rc == CAIRN_NOT_FOUND) {
		*ret = 0;
		return 0;
	}
	return rc;
}

static int get_last_number(struct catalogue_batch *batch, uint64_t *ret, struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_kind('n');
	cairn_auto_free uint8_t *data = NULL;
	size_t len;
	int rc = pool_catalogue_batch_get(batch, pool_records_key_bytes(&key), &data, &len, err);

	*ret = 0;
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	return rc ? rc : parse_number(data, len, ret, err);
}

int pool_records_take_numbers(struct catalogue_batch *batch, size_t n, uint64_t *ret_first,
			      struct cairn_err *err)
{
	uint64_t last;
	int rc = get_last_number(batch, &last, err);

	if (rc)
		return rc;
	pool_records_set_last_number(batch, last + n);
	*ret_first = last + 1;
	return 0;
}

int pool_records_pass_number(struct catalogue_batch *batch, uint64_t number, struct cairn_err *err)
{
	uint64_t last;
	int rc = get_last_number(batch, &last, err);

	if (!rc && last < number && number - last <= NUMBER_FAR)
		pool_records_set_last_number(batch, number);
	return rc;
}

int pool_records_snapshot_touch(struct catalogue_batch *batch, uint64_t number,
				struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_number('s', number);
	cairn_auto_free uint8_t *data = NULL;
	struct record_snapshot old;
	struct record_snapshot now;
	size_t n;
	int rc = pool_catalogue_batch_get(batch, pool_records_key_bytes(&key), &data, &n, err);

	if (!rc)
		rc = pool_record_snapshot_decode(data, n, &old, err);
	if (rc == CAIRN_NOT_FOUND || (!rc && !old.has_data))
		return cairn_err_set(err, CAIRN_ABORTED,
				     "snapshot %llu was removed in the meantime",
				     (unsigned long long)number);
	if (rc)
		return rc;
	now = old;
	now.revision++;
	put_snapshot_record(batch, &old, &now);
	return 0;
}

void pool_records_set_last_number(struct catalogue_batch *batch, uint64_t number)
{
	struct ledger_key key = pool_records_key_kind('n');

	records_put_number(batch, &key, number);
}

void pool_records_volume_reindex(struct catalogue_batch *batch, const struct record_volume *volume)
{
	struct ledger_key name = pool_records_key_text('w', volume->name);

	if (volume_is_named(volume))
		records_put_number(batch, &name, volume->volume);
	move_entry(batch, 'h', false, 0, volume->head != 0, volume->head, volume->volume);
}

void pool_records_snapshot_put_name(struct catalogue_batch *batch,
				    const struct record_snapshot *snapshot)
{
	struct ledger_key key = pool_records_key_named('m', snapshot->volume, snapshot->name);

	records_put_number(batch, &key, snapshot->number);
}

void pool_records_snapshot_reindex(struct catalogue_batch *batch,
				   const struct record_snapshot *snapshot, bool with_name)
{
	move_entry(batch, 'l', false, 0, true, snapshot->volume, snapshot->number);
	move_entry(batch, 'c', false, 0, snapshot->parent != 0, snapshot->parent, snapshot->number);
	move_entry(batch, 't', false, 0, snapshot->deleted, snapshot->expires_ns, snapshot->number);
	if (with_name && snapshot->name[0])
		pool_records_snapshot_put_name(batch, snapshot);
}

void pool_records_volume_put(struct catalogue_batch *batch, const struct record_volume *volume)
{
	struct ledger_key key = pool_records_key_number('v', volume->volume);
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	pool_record_volume_encode(volume, &bytes);
	put_buf(batch, &key, &bytes);
	pool_records_volume_reindex(batch, volume);
}

void pool_records_snapshot_put(struct catalogue_batch *batch,
			       const struct record_snapshot *snapshot)
{
	struct ledger_key key = pool_records_key_number('s', snapshot->number);
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	pool_record_snapshot_encode(snapshot, &bytes);
	put_buf(batch, &key, &bytes);
	pool_records_snapshot_reindex(batch, snapshot, true);
}

void pool_records_volume_expect(struct catalogue_batch *batch, const struct record_volume *volume)
{
	struct ledger_key key = pool_records_key_number('v', volume->volume);
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	pool_record_volume_encode(volume, &bytes);
	expect_buf(batch, &key, &bytes);
}

void pool_records_snapshot_expect(struct catalogue_batch *batch,
				  const struct record_snapshot *snapshot)
{
	struct ledger_key key = pool_records_key_number('s', snapshot->number);
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(RECORD_BYTES_MAX);

	pool_record_snapshot_encode(snapshot, &bytes);
	expect_buf(batch, &key, &bytes);
}

void pool_records_expect_none(struct catalogue_batch *batch, char kind, uint64_t number)
{
	struct ledger_key key = pool_records_key_number(kind, number);

	expect_buf(batch, &key, NULL);
}
