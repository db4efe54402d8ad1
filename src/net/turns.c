/* SPDX-License-Identifier: Apache-2.0 */

#include "net/turns.h"

#include "base/lock.h"
#include "base/wait.h"

#define LOOK_MS 20 /* how often `gone` is called */

/* A waiting thread; on its stack. */
struct net_turn {
	struct net_turn *prev, *next;
	pthread_cond_t changed;
	bool granted;
};

void net_turns_init(struct net_turns *turns)
{
	*turns = (struct net_turns){.taken = false};
	pthread_mutex_init(&turns->lock, NULL);
}

void net_turns_done(struct net_turns *turns)
{
	pthread_mutex_destroy(&turns->lock);
}

static void turns_enqueue(struct net_turns *turns, uint8_t lane, struct net_turn *turn)
{
	turn->prev = turns->lanes[lane].last;
	if (turn->prev)
		turn->prev->next = turn;
	else
		turns->lanes[lane].first = turn;
	turns->lanes[lane].last = turn;
}

static void turns_dequeue(struct net_turns *turns, uint8_t lane, struct net_turn *turn)
{
	if (turn->prev)
		turn->prev->next = turn->next;
	else
		turns->lanes[lane].first = turn->next;
	if (turn->next)
		turn->next->prev = turn->prev;
	else
		turns->lanes[lane].last = turn->prev;
}

/* Waits until the turn is granted; false when `gone` reports true. Called with the lock held. */
static bool turns_wait_for(struct net_turns *turns, struct net_turn *turn, const atomic_bool *gone)
{
	while (!turn->granted && !atomic_load_explicit(gone, memory_order_relaxed))
		(void)cairn_cond_wait_until(&turn->changed, &turns->lock, cairn_after_ms(LOOK_MS));
	return turn->granted;
}

bool net_turns_take(struct net_turns *turns, uint8_t lane, const atomic_bool *gone)
{
	struct net_turn turn = {.granted = false};
	bool granted;

	cairn_scoped_lock(&turns->lock);
	if (!turns->taken) {
		turns->taken = true;
		return true;
	}
	cairn_cond_init(&turn.changed);
	turns_enqueue(turns, lane, &turn);
	granted = turns_wait_for(turns, &turn, gone);
	if (!granted)
		turns_dequeue(turns, lane, &turn);
	pthread_cond_destroy(&turn.changed);
	return granted;
}

void net_turns_give(struct net_turns *turns)
{
	cairn_scoped_lock(&turns->lock);
	for (unsigned i = 0; i < NET_CROWD_LANES; i++) {
		uint8_t lane = turns->at;
		struct net_turn *turn = turns->lanes[lane].first;

		turns->at = (uint8_t)((lane + 1) % NET_CROWD_LANES);
		if (!turn)
			continue;
		/* `taken` stays true: the turn is handed over, so that a newcomer cannot take it
		 * before the thread has woken up. */
		turns_dequeue(turns, lane, turn);
		turn->granted = true;
		pthread_cond_signal(&turn->changed);
		return;
	}
	turns->taken = false;
}
