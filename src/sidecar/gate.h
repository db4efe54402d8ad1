/* SPDX-License-Identifier: Apache-2.0 */

/* Lets only so many through at a time, and is fair about it.
 *
 * Whoever comes belongs to somebody: a user, or the address it comes from. At
 * most `total` are inside, and at most `each` of one owner. Who finds no place
 * waits in the line of its owner; a place that becomes free goes to the owners
 * in turn, so that one with a thousand waiting delays another by one. A line
 * has an end: who comes after it is refused.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_GATE_H
#define CAIRN_SIDECAR_GATE_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct sidecar_gate;
struct sidecar_gate_owner;
struct sidecar_key;
struct sidecar_wait;

struct sidecar_gate_options {
	const char *what;      /* for the text of a refusal: "streams"; borrowed */
	unsigned total;        /* inside */
	unsigned each;         /* inside, of one owner */
	unsigned waiting;      /* outside, of all owners together */
	unsigned waiting_each; /* outside, of one owner */
};

int sidecar_gate_new(const struct sidecar_gate_options *options, struct sidecar_gate **ret,
		     struct cairn_err *err);

/* Nobody may be inside or waiting. Accepts NULL. */
void sidecar_gate_free(struct sidecar_gate *gate);
CAIRN_DEFINE_CLEANUP(struct sidecar_gate, sidecar_gate_free);

/* A place inside; zeroed when there is none. */
struct sidecar_pass {
	struct sidecar_gate *gate;
	struct sidecar_gate_owner *owner;
	bool waited;
};

/* Goes in, waiting if it must; `key` is the owner's.
 *
 * CAIRN_NO_SPACE   the line is too long, or memory is short
 * CAIRN_CANCELLED, CAIRN_DEADLINE  as sidecar_wait_check() says
 */
int sidecar_gate_enter(struct sidecar_gate *gate, const struct sidecar_key *key,
		       const struct sidecar_wait *wait, struct sidecar_pass *ret,
		       struct cairn_err *err);

/* Comes out; accepts a zeroed pass. Also a cleanup function. */
void sidecar_gate_leave(struct sidecar_pass *pass);

struct sidecar_gate_stats {
	unsigned inside;
	unsigned waiting;
	unsigned owners;
};

void sidecar_gate_stats(struct sidecar_gate *gate, struct sidecar_gate_stats *ret);

#endif
