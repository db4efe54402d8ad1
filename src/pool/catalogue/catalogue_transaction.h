/* SPDX-License-Identifier: Apache-2.0 */

/* One SQLite transaction for a group of batches. catalogue_commit.c chooses the group and the
 * connection. */
#ifndef CAIRN_POOL_CATALOGUE_TRANSACTION_H
#define CAIRN_POOL_CATALOGUE_TRANSACTION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"
#include "pool/catalogue/catalogue.h"

struct conn;

/* A batch that waits, on its caller's stack. */
struct catalogue_waiting {
	struct catalogue_waiting *next;
	struct catalogue_batch *batch;
	enum catalogue_sync sync;
	int rc;
	struct cairn_err err;
	bool done;
	bool leads; /* commits for those behind it */
	pthread_cond_t changed;
};

/* One transaction for the whole group; an unmet expectation of a single batch is the failure of
 * that batch only, and stands in its entry. After any other failure nothing is committed, except
 * that *ret_uncertain says that frames of a commit that failed may still be in the log. */
int pool_catalogue_transaction_run(struct conn *conn, struct catalogue_waiting *group,
				   bool *ret_uncertain, struct cairn_err *err);

#endif
