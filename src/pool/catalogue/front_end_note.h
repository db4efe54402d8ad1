/* SPDX-License-Identifier: Apache-2.0 */

/* Small values that a front end keeps with a pool: state published to Kubernetes
 * about a volume, or which snapshots form a group. The pool does not interpret them.
 * They are stored in the catalogue, so they are as durable as the volumes
 * themselves.
 */
#ifndef CAIRN_POOL_NOTE_H
#define CAIRN_POOL_NOTE_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct pool;

#define POOL_NOTE_KEY_MAX   300U /* bytes: a kind and two names */
#define POOL_NOTE_VALUE_MAX 32768U

/* A note's value; `data` NULL is "no such note". */
struct pool_note {
	const void *data;
	size_t len;
};

/* CAIRN_NOT_FOUND when there is none. *ret_data is owned by the caller and has
 * a NUL beyond its length. */
int pool_note_get(struct pool *pool, const char *key, char **ret_data, size_t *ret_len,
		  struct cairn_err *err);

/* Replaces `old` by `now`, either of which may be "no such note"; durable.
 *
 * CAIRN_ABORTED  the note is no longer `old`
 * CAIRN_INVALID  key or value is too long
 */
int pool_note_change(struct pool *pool, const char *key, struct pool_note old, struct pool_note now,
		     struct cairn_err *err);

/* Puts the note, replacing any value; NULL removes it. Of two concurrent calls
 * one fails with CAIRN_ABORTED. */
int pool_note_put(struct pool *pool, const char *key, const char *text, struct cairn_err *err);

/* Calls `fn` for each note whose key begins with `prefix`, in order. A positive
 * return ends the scan. */
int pool_note_scan(struct pool *pool, const char *prefix,
		   int (*fn)(void *arg, const char *key, struct pool_note value,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err);

#endif
