/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/front_end_note.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/record_key.h"
#include "pool/pool_impl.h"
#include "pool/store/reserve.h"

static int front_end_note_make_key(const char *text, struct ledger_key *ret, struct cairn_err *err)
{
	if (strlen(text) > POOL_NOTE_KEY_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "a note's key is too long");
	*ret = pool_records_key_text('x', text);
	return 0;
}

int pool_note_get(struct pool *pool, const char *key, char **ret_data, size_t *ret_len,
		  struct cairn_err *err)
{
	struct ledger_key at;
	uint8_t *data;
	int rc = front_end_note_make_key(key, &at, err);

	if (!rc)
		rc = pool_catalogue_get(pool->cat, pool_records_key_bytes(&at), &data, ret_len,
					err);
	if (!rc)
		*ret_data = (char *)data;
	return rc;
}

int pool_note_change(struct pool *pool, const char *key, struct pool_note old, struct pool_note now,
		     struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct ledger_key at;
	int rc = pool_impl_check_writable(pool, err);

	if (!rc)
		rc = front_end_note_make_key(key, &at, err);
	if (!rc && now.len > POOL_NOTE_VALUE_MAX)
		rc = cairn_err_set(err, CAIRN_INVALID, "a note is too long");
	if (!rc)
		rc = pool_catalogue_batch_new(pool->cat, &batch, err);
	if (rc)
		return rc;
	pool_catalogue_expect(batch, pool_records_key_bytes(&at),
			      (struct catalogue_bytes){old.data, old.len});
	if (now.data)
		pool_catalogue_put(batch, pool_records_key_bytes(&at),
				   (struct catalogue_bytes){now.data, now.len});
	else
		pool_catalogue_delete(batch, pool_records_key_bytes(&at));
	/* Removing a note may use the reserve, because it is part of most
	 * operations by which a driver releases resources. */
	do
		rc = pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
	while (!now.data && pool_reserve_helps(pool, rc, err));
	return rc;
}

int pool_note_put(struct pool *pool, const char *key, const char *text, struct cairn_err *err)
{
	cairn_auto_free char *old = NULL;
	struct pool_note before = {0};
	struct pool_note now = {0};
	int rc = pool_note_get(pool, key, &old, &before.len, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	if (!old && !text)
		return 0;
	before.data = old;
	if (text)
		now = (struct pool_note){text, strlen(text)};
	return pool_note_change(pool, key, before, now, err);
}

struct scan {
	int (*fn)(void *arg, const char *key, struct pool_note value, struct cairn_err *err);
	void *arg;
};

static int scan_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		    bool damaged, struct cairn_err *err)
{
	const struct scan *scan = arg;
	char text[CATALOGUE_KEY_MAX + 1];

	if (damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "a note's checksum does not fit");
	memcpy(text, (const char *)key.data + 2, key.len - 2);
	text[key.len - 2] = '\0';
	return scan->fn(scan->arg, text, (struct pool_note){value.data, value.len}, err);
}

int pool_note_scan(struct pool *pool, const char *prefix,
		   int (*fn)(void *arg, const char *key, struct pool_note value,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err)
{
	struct scan scan = {.fn = fn, .arg = arg};
	struct ledger_key at;
	int rc = front_end_note_make_key(prefix, &at, err);

	return rc ? rc
		  : pool_catalogue_scan(pool->cat, pool_records_key_bytes(&at),
					(struct catalogue_bytes){"", 0}, scan_one, &scan, err);
}
