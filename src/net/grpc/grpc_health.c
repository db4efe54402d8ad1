/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_health.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "grpc_health.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/call_places.h"
#include "net/grpc/grpc_server.h"
#include "proto/message.h"

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

struct net_health {
	pthread_mutex_t lock;
	/* Guarded by the lock. */
	struct {
		char *name;
		bool serving;
	} services[NET_HEALTH_SERVICES_MAX];
	unsigned n_services;
	bool shut_down;

	struct net_call_places watchers;
};

struct net_health *net_health_new(void)
{
	struct net_health *health = cairn_calloc(1, sizeof(*health));

	if (!health)
		return NULL;
	pthread_mutex_init(&health->lock, NULL);
	net_call_places_init(&health->watchers);
	if (net_health_set(health, "", true, NULL) != 0) {
		net_health_free(health);
		return NULL;
	}
	return health;
}

void net_health_free(struct net_health *health)
{
	if (!health)
		return;
	for (unsigned i = 0; i < health->n_services; i++)
		free(health->services[i].name);
	net_call_places_done(&health->watchers);
	pthread_mutex_destroy(&health->lock);
	free(health);
}

/* With the lock held; -1 when it is not known. */
static int grpc_health_find(const struct net_health *health, const char *service)
{
	for (unsigned i = 0; i < health->n_services; i++) {
		if (strcmp(health->services[i].name, service) == 0)
			return (int)i;
	}
	return -1;
}

int net_health_set(struct net_health *health, const char *service, bool serving,
		   struct cairn_err *err)
{
	cairn_scoped_lock(&health->lock);
	int i = grpc_health_find(health, service);

	if (i < 0) {
		if (health->n_services == NET_HEALTH_SERVICES_MAX)
			return cairn_err_set(err, CAIRN_NO_SPACE, "more than %d health services",
					     NET_HEALTH_SERVICES_MAX);
		i = (int)health->n_services;
		health->services[i].name = cairn_strdup(service);
		if (!health->services[i].name)
			return cairn_err_nomem(err, "health service");
		health->n_services++;
	}
	health->services[i].serving = serving;
	net_call_places_wake(&health->watchers);
	return 0;
}

void net_health_shut_down(struct net_health *health)
{
	cairn_scoped_lock(&health->lock);
	health->shut_down = true;
	net_call_places_wake(&health->watchers);
}

/* --- the service --- */

static int grpc_health_status_of(struct net_health *health, const char *service, bool *ret_last)
{
	cairn_scoped_lock(&health->lock);
	int i = grpc_health_find(health, service);

	*ret_last = health->shut_down;
	if (i < 0)
		return SERVICE_UNKNOWN;
	return health->services[i].serving && !health->shut_down ? SERVING : NOT_SERVING;
}

static int grpc_health_send_status(struct net_call *call, int status, struct cairn_err *err)
{
	Grpc__Health__V1__HealthCheckResponse response;
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(64);

	grpc__health__v1__health_check_response__init(&response);
	response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
	proto_pack(&response.base, &buf);
	if (cairn_buf_failed(&buf))
		return cairn_err_nomem(err, "health response");
	return net_call_send(call, buf.data, buf.len, err);
}

static int grpc_health_read_request(struct net_call *call, ProtobufCMessage **ret,
				    struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc < 0)
		return rc;
	return proto_unpack(&grpc__health__v1__health_check_request__descriptor, data, n, ret, err);
}

static int grpc_health_check(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	bool last;
	int status, rc = grpc_health_read_request(call, &message, err);

	if (rc != 0)
		return rc;
	status = grpc_health_status_of(
		arg, ((Grpc__Health__V1__HealthCheckRequest *)message)->service, &last);
	if (status == SERVICE_UNKNOWN)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no such service");
	return grpc_health_send_status(call, status, err);
}

static int tell_changes(struct net_health *health, const struct net_call_place *place,
			const char *service, struct cairn_err *err)
{
	struct net_call *call = place->call;
	int sent = -1;

	for (;;) {
		bool last;
		int rc = 0, status = grpc_health_status_of(health, service, &last);

		if (status != sent)
			rc = grpc_health_send_status(call, status, err);
		sent = status;
		if (rc == 0 && last)
			rc = cairn_err_set(err, CAIRN_UNAVAILABLE, "the server is stopping");
		if (rc == 0)
			rc = net_call_sleep(call, UINT64_MAX, err);
		if (rc == 0)
			rc = net_call_places_check(&health->watchers, place, err);
		if (rc != 0)
			return rc;
	}
}

static int grpc_health_watch(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	struct net_health *health = arg;
	struct net_call_place place;
	int rc = grpc_health_read_request(call, &message, err);

	if (rc == 0)
		rc = net_call_places_enter(&health->watchers, call, &place, err);
	if (rc != 0)
		return rc;
	rc = tell_changes(health, &place,
			  ((Grpc__Health__V1__HealthCheckRequest *)message)->service, err);
	net_call_places_leave(&health->watchers, &place);
	return rc;
}

int net_health_serve(struct net_health *health, struct net_server *server, struct cairn_err *err)
{
	const struct net_method methods[] = {
		{"/grpc.health.v1.Health/Check", NET_UNARY, grpc_health_check, health, 4096,
		 .quick = true},
		{"/grpc.health.v1.Health/Watch", NET_SERVER_STREAM, grpc_health_watch, health,
		 4096},
	};

	return net_server_add(server, methods, sizeof(methods) / sizeof(methods[0]), err);
}
