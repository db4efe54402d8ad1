/* SPDX-License-Identifier: Apache-2.0 */

#include "aggapi/memo.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"

#define WAYS 4 /* entries that a key may be in */

struct entry {
	struct aggapi_key key;
	json_t *value; /* NULL: free */
	uint64_t until_ns;
};

struct aggapi_memo {
	pthread_mutex_t lock;
	size_t n_sets;
	struct entry (*sets)[WAYS];
};

int aggapi_key(const char *const texts[], size_t n, struct aggapi_key *ret, struct cairn_err *err)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool good = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

	for (size_t i = 0; i < n && good; i++) {
		uint64_t len = texts[i] ? strlen(texts[i]) : UINT64_MAX;

		good = EVP_DigestUpdate(md, &len, sizeof(len)) == 1 &&
		       (!texts[i] || EVP_DigestUpdate(md, texts[i], len) == 1);
	}
	good = good && EVP_DigestFinal_ex(md, ret->bytes, NULL) == 1;
	EVP_MD_CTX_free(md);
	return good ? 0 : cairn_err_nomem(err, "digest");
}

int aggapi_memo_new(size_t entries, struct aggapi_memo **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_memo_freep) struct aggapi_memo *memo = cairn_calloc(1, sizeof(*memo));

	if (!memo)
		return cairn_err_nomem(err, "memo");
	pthread_mutex_init(&memo->lock, NULL);
	memo->n_sets = entries / WAYS > 0 ? entries / WAYS : 1;
	memo->sets = cairn_calloc(memo->n_sets, sizeof(*memo->sets));
	if (!memo->sets)
		return cairn_err_nomem(err, "memo");
	*ret = cairn_take(memo);
	return 0;
}

void aggapi_memo_free(struct aggapi_memo *memo)
{
	for (size_t i = 0; memo->sets && i < memo->n_sets; i++)
		for (size_t way = 0; way < WAYS; way++)
			json_decref(memo->sets[i][way].value);
	free(memo->sets);
	pthread_mutex_destroy(&memo->lock);
	free(memo);
}

static struct entry *set_of(struct aggapi_memo *memo, const struct aggapi_key *key)
{
	uint64_t hash;

	memcpy(&hash, key->bytes, sizeof(hash));
	return memo->sets[hash % memo->n_sets];
}

static bool same(const struct entry *entry, const struct aggapi_key *key)
{
	return entry->value && memcmp(&entry->key, key, sizeof(*key)) == 0;
}

json_t *aggapi_memo_get(struct aggapi_memo *memo, const struct aggapi_key *key, uint64_t now_ns)
{
	cairn_scoped_lock(&memo->lock);
	struct entry *set = set_of(memo, key);

	for (size_t way = 0; way < WAYS; way++)
		if (same(&set[way], key) && set[way].until_ns > now_ns)
			return json_incref(set[way].value);
	return NULL;
}

void aggapi_memo_put(struct aggapi_memo *memo, const struct aggapi_key *key, json_t *value,
		     uint64_t until_ns)
{
	cairn_scoped_lock(&memo->lock);
	struct entry *set = set_of(memo, key), *place = &set[0];

	for (size_t way = 0; way < WAYS; way++) {
		if (same(&set[way], key)) {
			place = &set[way];
			break;
		}
		if (!set[way].value || (place->value && set[way].until_ns < place->until_ns))
			place = &set[way];
	}
	json_decref(place->value);
	*place = (struct entry){.key = *key, .value = json_incref(value), .until_ns = until_ns};
}
