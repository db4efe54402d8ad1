/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"

#define PAIR_KEY_LEN   (2 + LEDGER_HEX + 1 + LEDGER_HEX)
#define NUMBER_KEY_LEN (2 + LEDGER_HEX)

/* A new slot of a growing array; NULL when memory is short. */
static void *array_slot(void **array, size_t n, size_t size)
{
	if ((n & (n - 1)) == 0) { /* full at every power of two */
		void *grown = cairn_realloc_array(*array, n ? n * 2 : 1, size);

		if (!grown)
			return NULL;
		*array = grown;
	}
	memset((char *)*array + n * size, 0, size);
	return (char *)*array + n * size;
}

/* A NUL is appended, so that the key may be read as text. */
static uint8_t *copy_key(struct catalogue_bytes key)
{
	uint8_t *copy = cairn_alloc(key.len + 1);

	if (copy) {
		memcpy(copy, key.data, key.len);
		copy[key.len] = 0;
	}
	return copy;
}

static int add_other(struct inventory *inv, struct catalogue_bytes key, struct cairn_err *err)
{
	struct inventory_other *other =
		array_slot((void **)&inv->others, inv->n_others, sizeof(*other));

	if (!other)
		return cairn_err_nomem(err, "inventory");
	other->key = copy_key(key);
	other->key_len = key.len;
	if (!other->key)
		return cairn_err_nomem(err, "inventory");
	inv->n_others++;
	return 0;
}

static enum inventory_state inventory_state_of(int rc)
{
	return rc == 0                     ? INVENTORY_GOOD
	       : rc == CAIRN_UNIMPLEMENTED ? INVENTORY_NEWER
					   : INVENTORY_DAMAGED;
}

static int inventory_add_volume(struct inventory *inv, uint64_t bits, struct catalogue_bytes value,
				bool damaged, struct cairn_err *err)
{
	struct inventory_volume *volume =
		array_slot((void **)&inv->volumes, inv->n_volumes, sizeof(*volume));
	int rc = CAIRN_DATA_LOSS;

	if (!volume)
		return cairn_err_nomem(err, "inventory");
	volume->bits = bits;
	volume->reason = damaged ? "its checksum does not fit" : "it makes no sense";
	if (!damaged)
		rc = pool_record_volume_decode(value.data, value.len, &volume->record, NULL);
	if (!rc && volume->record.volume != bits) {
		rc = CAIRN_DATA_LOSS;
		volume->reason = "it is that of another";
	}
	volume->state = inventory_state_of(rc);
	inv->n_volumes++;
	return 0;
}

static int inventory_add_snapshot(struct inventory *inv, uint64_t number,
				  struct catalogue_bytes value, bool damaged, struct cairn_err *err)
{
	struct inventory_snapshot *snapshot =
		array_slot((void **)&inv->snapshots, inv->n_snapshots, sizeof(*snapshot));
	int rc = CAIRN_DATA_LOSS;

	if (!snapshot)
		return cairn_err_nomem(err, "inventory");
	snapshot->number = number;
	snapshot->reason = damaged ? "its checksum does not fit" : "it makes no sense";
	if (!damaged)
		rc = pool_record_snapshot_decode(value.data, value.len, &snapshot->record, NULL);
	if (!rc && snapshot->record.number != number) {
		rc = CAIRN_DATA_LOSS;
		snapshot->reason = "it is that of another";
	}
	snapshot->state = inventory_state_of(rc);
	inv->n_snapshots++;
	return 0;
}

/* Splits "k/<a>/<b>", "m/<vol>/name" or "w/name"; false where that fails. */
static bool parse_entry(struct inventory_entry *entry, const char *text, size_t len,
			struct catalogue_bytes value)
{
	bool is_name = entry->kind == 'w' || entry->kind == 'm';

	if (is_name &&
	    (value.len != NUMBER_KEY_LEN ||
	     !pool_records_key_parse_hex((const char *)value.data + 2, LEDGER_HEX, &entry->b)))
		return false;
	if (entry->kind == 'w')
		return len > 2;
	if (len < 3 + LEDGER_HEX || text[2 + LEDGER_HEX] != '/' ||
	    !pool_records_key_parse_hex(text + 2, LEDGER_HEX, &entry->a))
		return false;
	return is_name ? len > 3 + LEDGER_HEX
		       : len == PAIR_KEY_LEN && pool_records_key_parse_hex(text + 3 + LEDGER_HEX,
									   LEDGER_HEX, &entry->b);
}

static int add_entry(struct inventory *inv, struct catalogue_bytes key,
		     struct catalogue_bytes value, bool damaged, struct cairn_err *err)
{
	struct inventory_entry *entry =
		array_slot((void **)&inv->entries, inv->n_entries, sizeof(*entry));
	uint8_t *text = entry ? copy_key(key) : NULL;

	if (!text)
		return cairn_err_nomem(err, "inventory");
	inv->n_entries++;
	entry->key = text;
	entry->key_len = key.len;
	entry->kind = (char)text[0];
	if (damaged || !parse_entry(entry, (char *)text, key.len, value))
		entry->kind = '?';
	else if (entry->kind == 'w')
		entry->name = (char *)text + 2;
	else if (entry->kind == 'm')
		entry->name = (char *)text + 3 + LEDGER_HEX;
	return 0;
}

static int read_counter(struct inventory *inv, struct catalogue_bytes key,
			struct catalogue_bytes value, bool damaged, struct cairn_err *err)
{
	if (damaged || value.len != NUMBER_KEY_LEN ||
	    !pool_records_key_parse_hex((const char *)value.data + 2, LEDGER_HEX,
					&inv->last_number))
		return add_other(inv, key, err);
	return 0;
}

static int inventory_add_value(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			       bool damaged, struct cairn_err *err)
{
	struct inventory *inv = arg;
	const char *text = key.data;
	uint64_t number = 0;
	bool numbered = key.len == NUMBER_KEY_LEN && text[1] == '/' &&
			pool_records_key_parse_hex(text + 2, LEDGER_HEX, &number);

	if (key.len < 2 || text[1] != '/')
		return add_other(inv, key, err);
	if (text[0] == 'v' && numbered)
		return inventory_add_volume(inv, number, value, damaged, err);
	if (text[0] == 's' && numbered)
		return inventory_add_snapshot(inv, number, value, damaged, err);
	if (memchr("wlmcht", text[0], 6))
		return add_entry(inv, key, value, damaged, err);
	if (text[0] == 'n' && key.len == 2)
		return read_counter(inv, key, value, damaged, err);
	return damaged || text[0] == 'v' || text[0] == 's' ? add_other(inv, key, err) : 0;
}

int pool_inventory_take(struct catalogue *cat, struct inventory **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_inventory_freep) struct inventory *inv = cairn_calloc(1, sizeof(*inv));
	struct catalogue_bytes all = {"", 0};
	int rc;

	if (!inv)
		return cairn_err_nomem(err, "inventory");
	rc = pool_catalogue_scan(cat, all, all, inventory_add_value, inv, err);
	if (rc)
		return rc;
	*ret = cairn_take(inv);
	return 0;
}

void pool_inventory_free(struct inventory *inv)
{
	if (!inv)
		return;
	for (size_t i = 0; i < inv->n_entries; i++)
		free(inv->entries[i].key);
	for (size_t i = 0; i < inv->n_others; i++)
		free(inv->others[i].key);
	free(inv->entries);
	free(inv->others);
	free(inv->volumes);
	free(inv->snapshots);
	free(inv);
}

static int compare_volume(const void *key, const void *item)
{
	uint64_t bits = *(const uint64_t *)key;
	const struct inventory_volume *volume = item;

	return bits < volume->bits ? -1 : bits > volume->bits;
}

const struct inventory_volume *pool_inventory_find_volume(const struct inventory *inv,
							  uint64_t bits)
{
	return inv->n_volumes ? bsearch(&bits, inv->volumes, inv->n_volumes,
					sizeof(inv->volumes[0]), compare_volume)
			      : NULL;
}

static int compare_snapshot(const void *key, const void *item)
{
	uint64_t number = *(const uint64_t *)key;
	const struct inventory_snapshot *snapshot = item;

	return number < snapshot->number ? -1 : number > snapshot->number;
}

const struct inventory_snapshot *pool_inventory_find_snapshot(const struct inventory *inv,
							      uint64_t number)
{
	return inv->n_snapshots ? bsearch(&number, inv->snapshots, inv->n_snapshots,
					  sizeof(inv->snapshots[0]), compare_snapshot)
				: NULL;
}

const struct record_volume *pool_inventory_good_volume(const struct inventory *inv, uint64_t bits)
{
	const struct inventory_volume *found = pool_inventory_find_volume(inv, bits);

	return found && found->state == INVENTORY_GOOD ? &found->record : NULL;
}

const struct record_snapshot *pool_inventory_good_snapshot(const struct inventory *inv,
							   uint64_t number)
{
	const struct inventory_snapshot *found = pool_inventory_find_snapshot(inv, number);

	return found && found->state == INVENTORY_GOOD ? &found->record : NULL;
}

/* Entries are in the order of their keys, damaged ones among them. */
static int compare_entry(const void *key, const void *item)
{
	const struct ledger_key *wanted = key;
	const struct inventory_entry *entry = item;
	size_t n = wanted->len < entry->key_len ? wanted->len : entry->key_len;
	int order = memcmp(wanted->text, entry->key, n);

	return order ? order : wanted->len < entry->key_len ? -1 : wanted->len > entry->key_len;
}

static const struct inventory_entry *inventory_find_entry(const struct inventory *inv,
							  const struct ledger_key *key)
{
	const struct inventory_entry *found =
		inv->n_entries ? bsearch(key, inv->entries, inv->n_entries, sizeof(inv->entries[0]),
					 compare_entry)
			       : NULL;

	return found && found->kind != '?' ? found : NULL;
}

bool pool_inventory_has_pair(const struct inventory *inv, char kind, uint64_t a, uint64_t b)
{
	struct ledger_key key = pool_records_key_pair(kind, a, b);

	return inventory_find_entry(inv, &key) != NULL;
}

const struct inventory_entry *pool_inventory_find_name(const struct inventory *inv, char kind,
						       uint64_t a, const char *name)
{
	struct ledger_key key = kind == 'w' ? pool_records_key_text(kind, name)
					    : pool_records_key_named(kind, a, name);

	return inventory_find_entry(inv, &key);
}

const struct inventory_entry *pool_inventory_entry_of(const struct inventory *inv, char kind,
						      uint64_t b,
						      const struct inventory_entry *after)
{
	size_t i = after ? (size_t)(after - inv->entries) + 1 : 0;

	for (; i < inv->n_entries; i++)
		if (inv->entries[i].kind == kind && inv->entries[i].b == b)
			return &inv->entries[i];
	return NULL;
}
