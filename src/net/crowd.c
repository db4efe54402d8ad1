/* SPDX-License-Identifier: Apache-2.0 */

#include "net/crowd.h"

#include <stddef.h>

#include "net/scratch.h"

static struct net_crowd *crowd_of(struct net_task *task, size_t offset)
{
	return (struct net_crowd *)(void *)((char *)task - offset);
}

/* Runs after the replies of this turn were sent. */
static void crowd_run_posted(struct net_task *task)
{
	struct net_crowd *crowd = crowd_of(task, offsetof(struct net_crowd, posted));

	net_loop_late(crowd->loop, &crowd->late);
}

static void crowd_ask(struct net_crowd *crowd)
{
	if (crowd->asked || crowd->waiting == 0)
		return;
	crowd->asked = true;
	net_loop_post(crowd->loop, &crowd->posted);
}

static void crowd_run_late(struct net_task *task)
{
	struct net_crowd *crowd = crowd_of(task, offsetof(struct net_crowd, late));
	struct net_crowd_entry *entry = net_crowd_next(crowd);

	crowd->asked = false;
	if (entry)
		crowd->work(entry);
	/* Continue in the next turn, before which the loop polls all sockets. */
	crowd_ask(crowd);
}

void net_crowd_init(struct net_crowd *crowd, struct net_loop *loop,
		    void (*work)(struct net_crowd_entry *entry))
{
	*crowd = (struct net_crowd){.loop = loop,
				    .work = work,
				    .posted.run = crowd_run_posted,
				    .late.run = crowd_run_late};
}

void net_crowd_add(struct net_crowd *crowd, struct net_crowd_entry *entry, uint8_t lane)
{
	if (entry->waiting)
		return;
	*entry = (struct net_crowd_entry){
		.prev = crowd->lanes[lane].last, .lane = lane, .waiting = true};
	if (entry->prev)
		entry->prev->next = entry;
	else
		crowd->lanes[lane].first = entry;
	crowd->lanes[lane].last = entry;
	crowd->waiting++;
	crowd_ask(crowd);
}

void net_crowd_remove(struct net_crowd *crowd, struct net_crowd_entry *entry)
{
	if (!entry->waiting)
		return;
	if (entry->prev)
		entry->prev->next = entry->next;
	else
		crowd->lanes[entry->lane].first = entry->next;
	if (entry->next)
		entry->next->prev = entry->prev;
	else
		crowd->lanes[entry->lane].last = entry->prev;
	entry->waiting = false;
	crowd->waiting--;
}

struct net_crowd_entry *net_crowd_next(struct net_crowd *crowd)
{
	for (unsigned i = 0; i < NET_CROWD_LANES; i++) {
		struct net_crowd_entry *entry = crowd->lanes[crowd->at].first;

		crowd->at = (uint8_t)((crowd->at + 1) % NET_CROWD_LANES);
		if (entry) {
			net_crowd_remove(crowd, entry);
			return entry;
		}
	}
	return NULL;
}
