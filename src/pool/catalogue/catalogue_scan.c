/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_impl.h"

/* Rows are copied out before the callback sees them, this many bytes at a
 * time. A scan that fits in one page has ended its read transaction when the
 * first callback runs; a longer one keeps the transaction to its end, so that
 * all rows are of one moment, and the log cannot be reset meanwhile. */
#define SCAN_PAGE_BYTES (256U << 10)

struct scan {
	struct catalogue_sqlite *cat;
	struct catalogue_bytes prefix;
	struct conn *conn; /* NULL once all rows are fetched */
	sqlite3_stmt *stmt;
	struct cairn_buf page;
};

struct row_head {
	size_t key_len, value_len;
	bool damaged;
};

static void scan_end(struct scan *scan, bool reuse)
{
	if (!scan->conn)
		return;
	if (scan->stmt) {
		sqlite3_reset(scan->stmt);
		sqlite3_clear_bindings(scan->stmt);
	}
	pool_catalogue_reader_release(scan->cat, scan->conn, reuse);
	scan->conn = NULL;
}

static void add_row(struct scan *scan, struct catalogue_bytes key)
{
	struct catalogue_bytes value = {NULL, 0};
	bool good = pool_catalogue_unwrap(key, pool_conn_column(scan->stmt, 1), &value);
	const struct row_head head = {key.len, good ? value.len : 0, !good};

	cairn_buf_add(&scan->page, &head, sizeof(head));
	cairn_buf_add(&scan->page, key.data, key.len);
	cairn_buf_add(&scan->page, value.data, head.value_len);
}

static bool in_prefix(struct catalogue_bytes prefix, struct catalogue_bytes key)
{
	return key.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(key.data, prefix.data, prefix.len) == 0);
}

/* Ends the transaction after the last row. */
static int catalogue_scan_fill_page(struct scan *scan, struct cairn_err *err)
{
	int rc;

	cairn_buf_reset(&scan->page);
	while ((rc = sqlite3_step(scan->stmt)) == SQLITE_ROW) {
		struct catalogue_bytes key = pool_conn_column(scan->stmt, 0);

		if (sqlite3_errcode(scan->conn->db) == SQLITE_NOMEM)
			return cairn_err_nomem(err, "catalogue scan");
		if (!key.data || key.len > CATALOGUE_KEY_MAX)
			return cairn_err_set(err, CAIRN_DATA_LOSS, "catalogue '%s': a damaged key",
					     scan->cat->path);
		if (!in_prefix(scan->prefix, key)) {
			rc = SQLITE_DONE;
			break;
		}
		add_row(scan, key);
		if (scan->page.failed)
			return cairn_err_nomem(err, "catalogue scan");
		if (scan->page.len >= SCAN_PAGE_BYTES)
			return 0;
	}
	if (rc != SQLITE_DONE)
		return pool_conn_err(scan->conn, rc, err);
	if (pool_conn_is_stale(scan->conn))
		return cairn_err_set(err, CAIRN_ABORTED,
				     "catalogue '%s' was changed while it was read",
				     scan->cat->path);
	scan_end(scan, true);
	return 0;
}

/* The smallest key to read: the prefix or the successor of `after`, whichever
 * is greater. The successor of a byte string is that string and a zero byte. */
static int catalogue_scan_begin(struct scan *scan, struct catalogue_bytes after,
				struct cairn_err *err)
{
	uint8_t from[CATALOGUE_KEY_MAX + 1];
	size_t n = scan->prefix.len;
	int rc, order = 1;

	if (n > 0)
		memcpy(from, scan->prefix.data, n);
	if (after.len > 0) {
		size_t common = after.len < n ? after.len : n;

		order = common > 0 ? memcmp(from, after.data, common) : 0;
		order = order != 0 ? order : n > after.len ? 1 : -1;
	}
	if (order < 0) {
		memcpy(from, after.data, after.len);
		from[after.len] = 0;
		n = after.len + 1;
	}
	rc = pool_conn_stmt(scan->conn, CONN_SCAN, &scan->stmt, err);
	if (rc != 0)
		return rc;
	rc = n == 0 ? sqlite3_bind_zeroblob(scan->stmt, 1, 0)
		    : sqlite3_bind_blob(scan->stmt, 1, from, (int)n, SQLITE_TRANSIENT);
	return rc == SQLITE_OK ? 0 : pool_conn_err(scan->conn, rc, err);
}

static int catalogue_scan_deliver(struct scan *scan,
				  int (*fn)(void *arg, struct catalogue_bytes key,
					    struct catalogue_bytes value, bool damaged,
					    struct cairn_err *err),
				  void *arg, struct cairn_err *err)
{
	const uint8_t *p = scan->page.data;
	const uint8_t *end = p ? p + scan->page.len : p;
	struct row_head head;

	while (p < end) {
		memcpy(&head, p, sizeof(head));
		p += sizeof(head);
		int rc = fn(arg, (struct catalogue_bytes){p, head.key_len},
			    (struct catalogue_bytes){p + head.key_len, head.value_len},
			    head.damaged, err);

		if (rc != 0)
			return rc;
		p += head.key_len + head.value_len;
	}
	return 0;
}

int pool_catalogue_sqlite_scan(struct catalogue *base, struct catalogue_bytes prefix,
			       struct catalogue_bytes after,
			       int (*fn)(void *arg, struct catalogue_bytes key,
					 struct catalogue_bytes value, bool damaged,
					 struct cairn_err *err),
			       void *arg, struct cairn_err *err)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)base;
	struct scan scan = {.cat = cat, .prefix = prefix};
	int rc = pool_catalogue_reader_take(cat, &scan.conn, err);

	if (rc != 0)
		return rc;
	cairn_buf_init(&scan.page, SCAN_PAGE_BYTES + sizeof(struct row_head) + CATALOGUE_KEY_MAX +
					   CATALOGUE_VALUE_MAX);
	rc = catalogue_scan_begin(&scan, after, err);
	while (rc == 0) {
		bool last;

		rc = catalogue_scan_fill_page(&scan, err);
		last = !scan.conn;
		if (rc == 0)
			rc = catalogue_scan_deliver(&scan, fn, arg, err);
		if (last)
			break;
	}
	scan_end(&scan, rc >= 0);
	cairn_buf_done(&scan.page);
	return rc;
}
