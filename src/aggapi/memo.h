/* SPDX-License-Identifier: Apache-2.0 */

/* Answers that stand for a moment: a bounded table of JSON values by key.
 *
 * Keys are SHA-256 of what was asked, so a token in a question is not kept. A
 * full table forgets what would have been forgotten first. Any thread.
 */
#ifndef CAIRN_AGGAPI_MEMO_H
#define CAIRN_AGGAPI_MEMO_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct aggapi_memo;
struct cairn_err;

#define AGGAPI_KEY_BYTES 32

struct aggapi_key {
	uint8_t bytes[AGGAPI_KEY_BYTES];
};

/* The key of some texts; NULL is a text of its own. */
int aggapi_key(const char *const texts[], size_t n, struct aggapi_key *ret, struct cairn_err *err);

int aggapi_memo_new(size_t entries, struct aggapi_memo **ret, struct cairn_err *err);
void aggapi_memo_free(struct aggapi_memo *memo);
CAIRN_DEFINE_CLEANUP(struct aggapi_memo, aggapi_memo_free);

/* The caller's reference; NULL when there is none, or it is too old. */
json_t *aggapi_memo_get(struct aggapi_memo *memo, const struct aggapi_key *key, uint64_t now_ns);

/* Keeps a reference to `value` (never changed from here on) until then. */
void aggapi_memo_put(struct aggapi_memo *memo, const struct aggapi_key *key, json_t *value,
		     uint64_t until_ns);

#endif
