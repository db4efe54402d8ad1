/* SPDX-License-Identifier: Apache-2.0 */

#include "net/accept_floods.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "net/accept_queues.h"

/* Offsets in the IP header. */
#define V4_SOURCE 12
#define V6_SOURCE 8

#define FACTORS    3
#define FOLD_BITS  15
#define QUEUE_BITS 5
#define CODE_MAX   (32 + NET_FLOODS_MAX + NET_ACCEPT_QUEUES_FLOOD)
#define GAP_NS     CAIRN_NS_PER_SEC /* after which an address is counted anew */

_Static_assert(1U << QUEUE_BITS == NET_ACCEPT_QUEUES_CALM, "the hash selects a calm queue");
_Static_assert(NET_FLOODS_MAX + NET_ACCEPT_QUEUES_FLOOD < 250, "a jump has 8 bits");

struct flood_entry {
	uint32_t hash;
	uint32_t n; /* reports, up to NET_FLOOD_AFTER: then it is a flood; 0: unused */
	uint64_t last_ns;
};

struct net_accept_floods {
	uint32_t factors[FACTORS]; /* odd and random; constant */
	pthread_mutex_t lock;      /* guards what follows */
	bool filtered;
	uint64_t look_ns; /* when to look for silent floods */
	struct flood_entry entries[NET_FLOODS_MAX];
};

int net_accept_floods_new(struct net_accept_floods **ret, struct cairn_err *err)
{
	static const uint32_t known[FACTORS] = {0x9e3779b1U, 0x85ebca77U, 0xc2b2ae3dU};
	struct net_accept_floods *floods = cairn_calloc(1, sizeof(*floods));

	if (!floods)
		return cairn_err_nomem(err, "floods");
	memcpy(floods->factors, known, sizeof(known));
	(void)cairn_random_bytes(floods->factors, sizeof(floods->factors), NULL);
	for (unsigned i = 0; i < FACTORS; i++)
		floods->factors[i] |= 1;
	pthread_mutex_init(&floods->lock, NULL);
	*ret = floods;
	return 0;
}

void net_accept_floods_free(struct net_accept_floods *floods)
{
	if (!floods)
		return;
	pthread_mutex_destroy(&floods->lock);
	free(floods);
}

/* --- the hash, here and in the filter --- */

static uint32_t big_endian(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

/* Each step is reversible for an IPv4 address, so that no two have the same hash. */
static uint32_t flood_hash(const struct net_accept_floods *floods,
			   const struct sockaddr_storage *peer)
{
	const uint32_t *factors = floods->factors;
	uint32_t sum;

	if (peer->ss_family == AF_INET6) {
		const struct in6_addr *from =
			&((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
		const uint8_t *at = from->s6_addr;

		if (IN6_IS_ADDR_V4MAPPED(from))
			sum = big_endian(at + 12) * factors[0];
		else
			sum = big_endian(at) * factors[0] + big_endian(at + 4) * factors[1];
	} else {
		sum = ntohl(((const struct sockaddr_in *)(const void *)peer)->sin_addr.s_addr) *
		      factors[0];
	}
	return (sum ^ sum >> FOLD_BITS) * factors[2];
}

static unsigned put_hash(struct sock_filter *code, const uint32_t factors[FACTORS])
{
	const struct sock_filter hash[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4), /* the version */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + V4_SOURCE),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, factors[0]),
		BPF_JUMP(BPF_JMP | BPF_JA, 6, 0, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + V6_SOURCE),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, factors[0]),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + V6_SOURCE + 4),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, factors[1]),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
		BPF_STMT(BPF_MISC | BPF_TAX, 0), /* both versions */
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, FOLD_BITS),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, factors[2]),
	};

	memcpy(code, hash, sizeof(hash));
	return sizeof(hash) / sizeof(hash[0]);
}

/* --- the filter --- */

static bool is_flood(const struct flood_entry *entry)
{
	return entry->n >= NET_FLOOD_AFTER;
}

/* A flood jumps to the return of its queue; the upper bits of other hashes are the queue. */
static unsigned put_choice(const struct net_accept_floods *floods, struct sock_filter *code)
{
	unsigned hashes[NET_FLOODS_MAX], n_floods = 0, n = 0;

	for (unsigned i = 0; i < NET_FLOODS_MAX; i++)
		if (is_flood(&floods->entries[i]))
			hashes[n_floods++] = i;
	for (unsigned i = 0; i < n_floods; i++) {
		unsigned queue = hashes[i] % NET_ACCEPT_QUEUES_FLOOD;
		unsigned over = n_floods - i - 1 + 2 + queue;

		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 floods->entries[hashes[i]].hash,
							 (uint8_t)over, 0);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 32 - QUEUE_BITS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	for (unsigned i = 0; i < NET_ACCEPT_QUEUES_FLOOD; i++)
		code[n++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, NET_ACCEPT_QUEUES_CALM + i);
	return n;
}

static bool replace_filter(const struct net_accept_floods *floods, int listening)
{
	struct sock_filter code[CODE_MAX];
	unsigned n = put_hash(code, floods->factors);
	struct sock_fprog program = {.filter = code};

	program.len = (unsigned short)(n + put_choice(floods, code + n));
	return setsockopt(listening, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
			  sizeof(program)) == 0;
}

void net_accept_floods_begin(struct net_accept_floods *floods, int listening)
{
	pthread_mutex_lock(&floods->lock);
	floods->filtered = replace_filter(floods, listening);
	pthread_mutex_unlock(&floods->lock);
}

/* --- reports --- */

/* If the filter cannot be replaced, silent floods keep their queues until it can be. */
static void forget_silent(struct net_accept_floods *floods, int listening, uint64_t now_ns)
{
	bool changed = false;

	if (now_ns < floods->look_ns)
		return;
	floods->look_ns = now_ns + GAP_NS;
	for (unsigned i = 0; i < NET_FLOODS_MAX; i++) {
		struct flood_entry *entry = &floods->entries[i];

		if (entry->n == 0 ||
		    now_ns < entry->last_ns + NET_FLOOD_FORGET_MS * CAIRN_NS_PER_MS)
			continue;
		changed = changed || is_flood(entry);
		entry->n = 0;
	}
	if (changed)
		(void)replace_filter(floods, listening);
}

/* The entry of the address; else an unused one, or the address that was reported longest ago
 * and is not a flood, is given up for it. NULL if all are floods. */
static struct flood_entry *flood_entry_of(struct net_accept_floods *floods, uint32_t hash)
{
	struct flood_entry *found = NULL;

	for (unsigned i = 0; i < NET_FLOODS_MAX; i++) {
		struct flood_entry *entry = &floods->entries[i];

		if (entry->n > 0 && entry->hash == hash)
			return entry;
		if (is_flood(entry) || (found && found->n == 0))
			continue;
		if (!found || entry->n == 0 || entry->last_ns < found->last_ns)
			found = entry;
	}
	if (found)
		*found = (struct flood_entry){.hash = hash};
	return found;
}

static bool count_report(struct net_accept_floods *floods, int listening, uint32_t hash,
			 uint64_t now_ns)
{
	struct flood_entry *entry = flood_entry_of(floods, hash);

	if (!entry)
		return false;
	if (!is_flood(entry) && now_ns > entry->last_ns + GAP_NS)
		entry->n = 0;
	entry->last_ns = now_ns;
	if (is_flood(entry) || ++entry->n < NET_FLOOD_AFTER || replace_filter(floods, listening))
		return true;
	entry->n = NET_FLOOD_AFTER - 1;
	return false;
}

bool net_accept_floods_report(struct net_accept_floods *floods, int listening,
			      const struct sockaddr_storage *peer, uint64_t now_ns)
{
	bool held = true;

	if (peer->ss_family != AF_INET && peer->ss_family != AF_INET6)
		return false;
	/* A thread of low priority may have the lock; a flood comes again. */
	if (pthread_mutex_trylock(&floods->lock) != 0)
		return true;
	if (floods->filtered) {
		forget_silent(floods, listening, now_ns);
		held = count_report(floods, listening, flood_hash(floods, peer), now_ns);
	} else {
		held = false;
	}
	pthread_mutex_unlock(&floods->lock);
	return held;
}
