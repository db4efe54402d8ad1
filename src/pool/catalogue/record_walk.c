/* SPDX-License-Identifier: Apache-2.0 */

/* The walks over the catalogue that ledger.h offers. */

#include "pool/catalogue/records.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/record_key.h"

static const struct catalogue_bytes from_start = {"", 0};

struct numbers {
	uint64_t *list;
	size_t n;
	size_t cap;
};

static int collect_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		       bool damaged, struct cairn_err *err)
{
	struct numbers *numbers = arg;
	const char *text = key.data;

	(void)value;
	(void)damaged;
	if (numbers->n == numbers->cap) {
		size_t cap = numbers->cap ? numbers->cap * 2 : 16;
		uint64_t *list = cairn_realloc_array(numbers->list, cap, sizeof(*list));

		if (!list)
			return cairn_err_nomem(err, "index");
		numbers->list = list;
		numbers->cap = cap;
	}
	if (key.len < LEDGER_HEX ||
	    !pool_records_key_parse_hex(text + key.len - LEDGER_HEX, LEDGER_HEX,
					&numbers->list[numbers->n]))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an index entry makes no sense");
	numbers->n++;
	return 0;
}

int pool_records_collect(struct catalogue *cat, enum ledger_index index, uint64_t key,
			 uint64_t **ret, size_t *ret_n, struct cairn_err *err)
{
	struct ledger_key prefix = pool_records_key_under((char)index, key);
	struct numbers numbers = {0};
	int rc = pool_catalogue_scan(cat, pool_records_key_bytes(&prefix), from_start, collect_one,
				     &numbers, err);

	if (rc) {
		free(numbers.list);
		return rc;
	}
	*ret = numbers.list;
	*ret_n = numbers.n;
	return 0;
}

struct expired {
	uint64_t now_ns;
	size_t skip;
	uint64_t *out;
	size_t n;
	size_t max;
};

static int expired_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		       bool damaged, struct cairn_err *err)
{
	struct expired *expired = arg;
	const char *text = key.data;
	uint64_t when;
	uint64_t number;

	(void)value;
	(void)err;
	(void)damaged;
	if (key.len != 2 + LEDGER_HEX + 1 + LEDGER_HEX ||
	    !pool_records_key_parse_hex(text + 2, LEDGER_HEX, &when) ||
	    !pool_records_key_parse_hex(text + 3 + LEDGER_HEX, LEDGER_HEX, &number))
		return 0; /* pool check reports it */
	if (when > expired->now_ns || expired->n == expired->max)
		return 1;
	if (expired->skip > 0)
		expired->skip--;
	else
		expired->out[expired->n++] = number;
	return 0;
}

int pool_records_expired(struct catalogue *cat, uint64_t now_ns, size_t skip, size_t max,
			 uint64_t *ret, size_t *ret_n, struct cairn_err *err)
{
	struct ledger_key prefix = pool_records_key_kind('t');
	struct expired expired = {.now_ns = now_ns, .skip = skip, .out = ret, .max = max};
	int rc = pool_catalogue_scan(cat, pool_records_key_bytes(&prefix), from_start, expired_one,
				     &expired, err);

	*ret_n = expired.n;
	return rc;
}

static int walk_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		    bool damaged, struct cairn_err *err)
{
	const struct ledger_walk *walk = arg;
	const char *text = key.data;
	struct record_volume volume;
	struct record_snapshot snapshot;
	uint64_t number = 0;
	int rc = 0;

	(void)pool_records_key_parse_hex(text + 2, key.len - 2, &number);
	if (damaged)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "its checksum does not fit");
	else if (text[0] == 'v')
		rc = pool_record_volume_decode(value.data, value.len, &volume, err);
	else
		rc = pool_record_snapshot_decode(value.data, value.len, &snapshot, err);
	if (rc && walk->fault) {
		walk->fault(walk->arg, text[0], number, err ? err->msg : "");
		return 0;
	}
	if (rc)
		return rc;
	return text[0] == 'v' ? walk->volume(walk->arg, &volume, err)
			      : walk->snapshot(walk->arg, &snapshot, err);
}

static int walk_kind(struct catalogue *cat, char kind, const struct ledger_walk *walk,
		     struct cairn_err *err)
{
	struct ledger_key prefix = pool_records_key_kind(kind);
	struct ledger_key after = {.len = 0};
	struct ledger_walk copy = *walk;

	if (walk->after)
		after = pool_records_key_number(kind, *walk->after);
	return pool_catalogue_scan(cat, pool_records_key_bytes(&prefix),
				   pool_records_key_bytes(&after), walk_one, &copy, err);
}

int pool_records_walk_volumes(struct catalogue *cat, const struct ledger_walk *walk,
			      struct cairn_err *err)
{
	return walk_kind(cat, 'v', walk, err);
}

int pool_records_walk_snapshots(struct catalogue *cat, const struct ledger_walk *walk,
				struct cairn_err *err)
{
	return walk_kind(cat, 's', walk, err);
}

struct leftovers {
	char (*out)[POOL_ID_MAX + 1];
	size_t n;
	size_t max;
};

static int leftover_one(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			bool damaged, struct cairn_err *err)
{
	struct leftovers *leftovers = arg;
	size_t n = key.len - 2;

	(void)value;
	(void)damaged;
	if (n > POOL_ID_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an index entry makes no sense");
	if (leftovers->n == leftovers->max)
		return 1;
	memcpy(leftovers->out[leftovers->n], (const char *)key.data + 2, n);
	leftovers->out[leftovers->n++][n] = '\0';
	return 0;
}

int pool_records_leftovers(struct catalogue *cat, const char *after, char (*out)[POOL_ID_MAX + 1],
			   size_t max, size_t *ret_n, struct cairn_err *err)
{
	struct ledger_key prefix = pool_records_key_kind('i');
	struct ledger_key from = pool_records_key_text('i', after);
	struct leftovers leftovers = {.out = out, .max = max};
	int rc = pool_catalogue_scan(cat, pool_records_key_bytes(&prefix),
				     pool_records_key_bytes(&from), leftover_one, &leftovers, err);

	*ret_n = leftovers.n;
	return rc;
}
