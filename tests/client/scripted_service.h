/* SPDX-License-Identifier: Apache-2.0 */

/* A scripted peer: a SnapshotMetadata service of the Kubernetes flavour that
 * makes its blocks up and breaks its streams where the script says. It checks
 * no object and no right; what a client makes of a stream is what is tested. */
#ifndef CAIRN_TESTS_CLIENT_SCRIPTED_SERVICE_H
#define CAIRN_TESTS_CLIENT_SCRIPTED_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cairn_err;
struct net_server;

/* What a stream does wrong. */
enum scripted_fault {
	SCRIPTED_RIGHT,
	SCRIPTED_OVERLAP,  /* the second block begins inside the first */
	SCRIPTED_TYPE,     /* another type than before */
	SCRIPTED_CAPACITY, /* another capacity than before */
	SCRIPTED_STRADDLE, /* the first block begins before the starting offset */
	SCRIPTED_GARBAGE,  /* the first message cannot be decoded */
	SCRIPTED_HANG,     /* sends nothing until it is cancelled */
};

#define SCRIPTED_ALL UINT64_MAX

/* How one stream goes. */
struct scripted_step {
	uint64_t messages; /* then it ends, unless the blocks did before */
	int code;          /* with this: 0, or negative */
	const char *token; /* that must be shown, else UNAUTHENTICATED; NULL: any */
	enum scripted_fault fault;
};

#define SCRIPTED_SEEN_MAX 64

struct scripted_service {
	/* Block i begins at i * stride. */
	uint64_t blocks, stride, length;
	uint32_t per_message;
	uint32_t type;
	bool announce; /* an empty first message, as a driver may send */

	/* The n-th stream goes as step n, and those after the last as the last. */
	const struct scripted_step *steps;
	size_t n_steps;

	FILE *log; /* a line for each stream as it begins, or NULL */

	_Atomic unsigned streams;
	pthread_mutex_t lock;
	/* Guarded by the lock: what was asked. */
	uint64_t offsets[SCRIPTED_SEEN_MAX];
	bool deltas[SCRIPTED_SEEN_MAX];
	char token[256], snapshot[256], base[256], namespace_name[256]; /* of the last one */
};

void scripted_service_init(struct scripted_service *service);
int scripted_service_add(struct scripted_service *service, struct net_server *server,
			 struct cairn_err *err);

uint64_t scripted_service_capacity(const struct scripted_service *service);

#endif
