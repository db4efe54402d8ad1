/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue.h"

#include "base/err.h"
#include "pool/catalogue/catalogue_ops.h"

void pool_catalogue_close(struct catalogue *cat)
{
	if (cat)
		cat->ops->close(cat);
}

const char *pool_catalogue_log_fault(const struct catalogue *cat)
{
	return cat->ops->log_fault ? cat->ops->log_fault(cat) : NULL;
}

int pool_catalogue_accept_log(struct catalogue *cat, struct cairn_err *err)
{
	return cat->ops->accept_log ? cat->ops->accept_log(cat, err) : 0;
}

int pool_catalogue_hold(struct catalogue *cat)
{
	return cat->ops->hold ? cat->ops->hold(cat) : -1;
}

bool pool_catalogue_make_room(struct catalogue *cat)
{
	return cat->ops->make_room && cat->ops->make_room(cat);
}

void pool_catalogue_let_go(struct catalogue *cat, bool let_go)
{
	if (cat->ops->let_go)
		cat->ops->let_go(cat, let_go);
}

void pool_catalogue_prefer_room(struct catalogue *cat, void (*trim)(void *arg), void *arg)
{
	if (cat->ops->prefer_room)
		cat->ops->prefer_room(cat, trim, arg);
}

static int get_value(struct catalogue *cat, struct catalogue_bytes key, bool stored,
		     uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	if (key.len == 0 || key.len > CATALOGUE_KEY_MAX)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no such record in the catalogue");
	return cat->ops->get(cat, key, stored, ret_data, ret_len, err);
}

int pool_catalogue_get(struct catalogue *cat, struct catalogue_bytes key, uint8_t **ret_data,
		       size_t *ret_len, struct cairn_err *err)
{
	return get_value(cat, key, false, ret_data, ret_len, err);
}

int pool_catalogue_get_stored(struct catalogue *cat, struct catalogue_bytes key, uint8_t **ret_data,
			      size_t *ret_len, struct cairn_err *err)
{
	return get_value(cat, key, true, ret_data, ret_len, err);
}

int pool_catalogue_scan(struct catalogue *cat, struct catalogue_bytes prefix,
			struct catalogue_bytes after,
			int (*fn)(void *arg, struct catalogue_bytes key,
				  struct catalogue_bytes value, bool damaged,
				  struct cairn_err *err),
			void *arg, struct cairn_err *err)
{
	int rc;

	if (prefix.len > CATALOGUE_KEY_MAX || after.len > CATALOGUE_KEY_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "catalogue: key too long");
	rc = cat->ops->scan(cat, prefix, after, fn, arg, err);
	return rc > 0 ? 0 : rc;
}

int pool_catalogue_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
			  struct cairn_err *err)
{
	if (batch->failed.code != 0) {
		if (err)
			*err = batch->failed;
		return batch->failed.code;
	}
	if (!batch->cat->writable)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the catalogue is open for reading only");
	return batch->cat->ops->commit(batch, sync, err);
}

bool pool_catalogue_is_certain(struct catalogue *cat)
{
	return cat->ops->is_certain(cat);
}

int pool_catalogue_check(struct catalogue *cat, void (*report)(void *arg, const char *line),
			 void *arg, struct cairn_err *err)
{
	return cat->ops->check(cat, report, arg, err);
}
