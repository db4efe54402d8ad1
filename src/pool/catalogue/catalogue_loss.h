/* SPDX-License-Identifier: Apache-2.0 */

/* Detects commits lost with the write-ahead log, from the mark
 * (pool/catalogue/catalogue_mark.h), the index of the log and the main file together.
 * docs/decisions/002 lists the cases.
 */
#ifndef CAIRN_POOL_CATALOGUE_LOSS_H
#define CAIRN_POOL_CATALOGUE_LOSS_H

struct cairn_err;
struct catalogue_sqlite;

/* Sets catalogue.log_fault. Must be called before any connection is open, because
 * SQLite creates a missing log. */
int pool_catalogue_find_loss(struct catalogue_sqlite *cat, struct cairn_err *err);

#endif
