/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/rates.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/siphash.h"

#define BUCKETS 4096

struct bucket {
	double tokens;
	uint64_t at_ns; /* 0: never used */
};

struct aggapi_rates {
	pthread_mutex_t lock;
	double per_ns, burst;
	struct cairn_siphash_key key; /* keyed, so that a peer cannot choose a colliding name */
	struct bucket buckets[BUCKETS];
};

int aggapi_rates_new(uint64_t per_second, uint64_t burst, struct aggapi_rates **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(aggapi_rates_freep) struct aggapi_rates *rates =
		cairn_calloc(1, sizeof(*rates));
	int rc;

	if (!rates)
		return cairn_err_nomem(err, "rates");
	pthread_mutex_init(&rates->lock, NULL);
	rates->per_ns = (double)per_second / (double)CAIRN_NS_PER_SEC;
	rates->burst = burst > 0 ? (double)burst : 1;
	rc = cairn_random_bytes(&rates->key, sizeof(rates->key), err);
	if (rc)
		return rc;
	*ret = cairn_take(rates);
	return 0;
}

void aggapi_rates_free(struct aggapi_rates *rates)
{
	pthread_mutex_destroy(&rates->lock);
	free(rates);
}

bool aggapi_rates_take(struct aggapi_rates *rates, const char *user, uint64_t now_ns,
		       uint64_t *ret_wait_s)
{
	uint64_t hash = cairn_siphash(&rates->key, user, strlen(user));
	struct bucket *bucket = &rates->buckets[hash % BUCKETS];
	double seconds;

	if (rates->per_ns <= 0)
		return true;
	cairn_scoped_lock(&rates->lock);
	if (bucket->at_ns == 0)
		bucket->tokens = rates->burst;
	else if (now_ns > bucket->at_ns)
		bucket->tokens += (double)(now_ns - bucket->at_ns) * rates->per_ns;
	if (bucket->tokens > rates->burst)
		bucket->tokens = rates->burst;
	bucket->at_ns = now_ns;
	if (bucket->tokens >= 1) {
		bucket->tokens -= 1;
		return true;
	}
	seconds = (1 - bucket->tokens) / rates->per_ns / (double)CAIRN_NS_PER_SEC;
	*ret_wait_s = (uint64_t)seconds + 1;
	return false;
}
