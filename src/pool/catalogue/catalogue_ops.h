/* SPDX-License-Identifier: Apache-2.0 */

/* What stores a catalogue: the table behind catalogue.h, and the batch that its
 * implementations commit.
 *
 * One `const struct catalogue_ops` for each kind of storage: an SQLite file in a
 * directory (catalogue_impl.h), an object's omap in RADOS (pool/rbd). Implementations
 * embed `struct catalogue` as their first member. Contracts and codes of the slots are
 * those of the functions of the same name in catalogue.h; the wrappers there have checked
 * lengths, the batch's own failure and that the catalogue is writable.
 */
#ifndef CAIRN_POOL_CATALOGUE_OPS_H
#define CAIRN_POOL_CATALOGUE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"

enum batch_op_kind {
	BATCH_PUT,
	BATCH_DELETE,
	BATCH_EXPECT,
	BATCH_EXPECT_ABSENT,
	BATCH_EXPECT_STORED,
};

/* True for those that change something. */
static inline bool pool_catalogue_op_changes(enum batch_op_kind kind)
{
	return kind == BATCH_PUT || kind == BATCH_DELETE;
}

struct batch_op {
	enum batch_op_kind kind;
	size_t key_len, value_len;
};

struct catalogue_batch {
	struct catalogue *cat;
	struct cairn_buf ops; /* struct batch_op, key, value (of BATCH_PUT with its checksum) */
	struct cairn_err failed;
	catalogue_late_fn *late; /* adds further operations inside the transaction, or NULL */
	void *late_arg;
	void *transaction; /* of the implementation, while `late` runs */
};

/* Runs the batch's late function; `transaction` is what the slot batch_get finds in the
 * batch. The caller drops what it added: the length of `ops` before. */
int pool_catalogue_batch_run_late(struct catalogue_batch *batch, void *transaction,
				  struct cairn_err *err);

struct catalogue_ops {
	const char *name;
	bool always_durable; /* a commit that is not asked to be durable is durable too */

	/* Required. */
	void (*close)(struct catalogue *cat);
	/* With `stored`, the bytes of pool_catalogue_get_stored(). */
	int (*get)(struct catalogue *cat, struct catalogue_bytes key, bool stored,
		   uint8_t **ret_data, size_t *ret_len, struct cairn_err *err);
	/* Returns what `fn` returned, if that is not 0. */
	int (*scan)(struct catalogue *cat, struct catalogue_bytes prefix,
		    struct catalogue_bytes after,
		    int (*fn)(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			      bool damaged, struct cairn_err *err),
		    void *arg, struct cairn_err *err);
	int (*batch_get)(struct catalogue_batch *batch, struct catalogue_bytes key,
			 uint8_t **ret_data, size_t *ret_len, struct cairn_err *err);
	int (*commit)(struct catalogue_batch *batch, enum catalogue_sync sync,
		      struct cairn_err *err);
	bool (*is_certain)(struct catalogue *cat);
	int (*check)(struct catalogue *cat, void (*report)(void *arg, const char *line), void *arg,
		     struct cairn_err *err);

	/* Optional: a log beside the catalogue, and files that can make room. */
	int (*hold)(struct catalogue *cat);
	const char *(*log_fault)(const struct catalogue *cat);
	int (*accept_log)(struct catalogue *cat, struct cairn_err *err);
	bool (*make_room)(struct catalogue *cat);
	void (*let_go)(struct catalogue *cat, bool let_go);
	void (*prefer_room)(struct catalogue *cat, void (*trim)(void *arg), void *arg);
};

struct catalogue {
	const struct catalogue_ops *ops;
	bool writable;
};

/* The checksum of a record. It covers the key, the value and the boundary
 * between them. */
void pool_catalogue_checksum(struct catalogue_bytes key, struct catalogue_bytes value,
			     uint8_t ret[CATALOGUE_SUM_LEN]);

/* The payload of a stored value, borrowed; false when it is damaged. */
bool pool_catalogue_unwrap(struct catalogue_bytes key, struct catalogue_bytes stored,
			   struct catalogue_bytes *ret);

#endif
