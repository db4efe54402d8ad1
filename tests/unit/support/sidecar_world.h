/* SPDX-License-Identifier: Apache-2.0 */

/* A made-up Kubernetes for tests of the sidecar's decisions: objects, tokens and
 * rights in memory, behind the table that the sidecar asks. Tests on a real API
 * server are in tests/peers. */
#ifndef CAIRN_TESTS_UNIT_SIDECAR_WORLD_H
#define CAIRN_TESTS_UNIT_SIDECAR_WORLD_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "kube/kube_wait.h"
#include "sidecar/kube.h"

#define WORLD_DRIVER "driver.test"

struct sidecar_world {
	pthread_mutex_t lock;
	json_t *objects; /* "plural/ns/name" */
	json_t *tokens;  /* token: audience and user */
	json_t *rights;  /* "user ns name", or "user ns *" */
	_Atomic unsigned token_reviews, access_reviews, gets, lists, looks;
	_Atomic int fail; /* every question fails with this code */
	_Atomic unsigned delay_ms;
	_Atomic int blind;    /* contents can not be listed */
	_Atomic int no_class; /* nor classes read */
};

void world_init(struct sidecar_world *world);
void world_done(struct sidecar_world *world);
struct sidecar_kube world_table(struct sidecar_world *world);
unsigned world_questions(struct sidecar_world *world);

/* `text` is JSON with ' for ". */
void world_put(struct sidecar_world *world, const char *plural, const char *ns, const char *name,
	       const char *text);
void world_remove(struct sidecar_world *world, const char *plural, const char *ns,
		  const char *name);
void world_token(struct sidecar_world *world, const char *token, const char *audience,
		 const char *user);
void world_forget_token(struct sidecar_world *world, const char *token);
void world_allow(struct sidecar_world *world, const char *user, const char *ns, const char *name);
void world_forbid(struct sidecar_world *world, const char *user, const char *ns, const char *name);

/* A ready snapshot of WORLD_DRIVER with its content: handle "h-NAME", volume
 * "vol". */
void world_snapshot(struct sidecar_world *world, const char *ns, const char *name);

/* Waits for ever. */
extern const struct kube_wait world_patience;

#endif
