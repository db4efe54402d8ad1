/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/pass_places.h"

#include "base/lock.h"
#include "kube/digest.h"

void aggapi_places_init(struct aggapi_places *places)
{
	*places = (struct aggapi_places){0};
	pthread_mutex_init(&places->lock, NULL);
}

void aggapi_places_done(struct aggapi_places *places)
{
	pthread_mutex_destroy(&places->lock);
}

bool aggapi_places_take(struct aggapi_places *places, bool watch, const struct kube_digest *who)
{
	struct aggapi_places_kind *kind = watch ? &places->watches : &places->passes;
	unsigned max = watch ? AGGAPI_WATCHES_MAX : AGGAPI_PASSES_MAX;
	unsigned each_max = watch ? AGGAPI_WATCHES_EACH_MAX : AGGAPI_PASSES_EACH_MAX;
	uint8_t *each = &kind->each[who->bytes[0]];

	cairn_scoped_lock(&places->lock);
	if (kind->n == max || *each == each_max)
		return false;
	kind->n++;
	(*each)++;
	return true;
}

void aggapi_places_leave(struct aggapi_places *places, bool watch, const struct kube_digest *who)
{
	struct aggapi_places_kind *kind = watch ? &places->watches : &places->passes;

	cairn_scoped_lock(&places->lock);
	kind->n--;
	kind->each[who->bytes[0]]--;
}
