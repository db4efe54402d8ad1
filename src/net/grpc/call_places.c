/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/call_places.h"

#include "base/err.h"
#include "base/lock.h"
#include "net/grpc/call.h"
#include "net/grpc/call_impl.h"
#include "net/limit_events.h"
#include "net/peer.h"

void net_call_places_init(struct net_call_places *places)
{
	*places = (struct net_call_places){0};
	pthread_mutex_init(&places->lock, NULL);
}

void net_call_places_done(struct net_call_places *places)
{
	pthread_mutex_destroy(&places->lock);
}

/* --- with the lock held --- */

static unsigned places_of(const struct net_call_places *places, const void *address)
{
	unsigned n = 0;

	for (const struct net_call_place *p = places->first; p; p = p->next)
		n += p->address == address;
	return n;
}

static void places_remove(struct net_call_places *places, struct net_call_place *place)
{
	struct net_call_place **at = &places->first;

	while (*at != place)
		at = &(*at)->next;
	*at = place->next;
	places->n--;
}

/* Takes the newest place of the address with the most, if that has more than `own` and one. */
static bool places_displace(struct net_call_places *places, unsigned own)
{
	struct net_call_place *victim = NULL;
	unsigned most = own + 1;

	for (struct net_call_place *p = places->first; p; p = p->next) {
		unsigned n = places_of(places, p->address);

		if (n > most) {
			most = n;
			victim = p;
		}
	}
	if (!victim)
		return false;
	places_remove(places, victim);
	victim->displaced = true;
	net_call_interrupt(victim->call);
	return true;
}

static int places_full(struct cairn_err *err)
{
	net_limit_count(NET_LIMIT_WAITING_CALLS);
	return cairn_err_set(err, CAIRN_NO_SPACE, "too many calls that wait");
}

/* --- public functions --- */

int net_call_places_enter(struct net_call_places *places, struct net_call *call,
			  struct net_call_place *place, struct cairn_err *err)
{
	cairn_scoped_lock(&places->lock);
	unsigned own;

	*place = (struct net_call_place){.call = call, .address = call->peer->share};
	own = places_of(places, place->address);
	if ((own >= NET_CALL_PLACES_EACH && !call->peer->peer.is_unix) ||
	    (places->n >= NET_CALL_PLACES && !places_displace(places, own)))
		return places_full(err);
	place->next = places->first;
	places->first = place;
	places->n++;
	return 0;
}

int net_call_places_check(struct net_call_places *places, const struct net_call_place *place,
			  struct cairn_err *err)
{
	cairn_scoped_lock(&places->lock);

	return place->displaced ? places_full(err) : 0;
}

void net_call_places_leave(struct net_call_places *places, struct net_call_place *place)
{
	cairn_scoped_lock(&places->lock);

	if (!place->displaced)
		places_remove(places, place);
}

void net_call_places_wake(struct net_call_places *places)
{
	cairn_scoped_lock(&places->lock);

	for (struct net_call_place *p = places->first; p; p = p->next)
		net_call_wake(p->call);
}
