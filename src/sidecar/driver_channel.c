/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/driver_channel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "csi_client/driver_identity.h"
#include "csi_identity.pb-c.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "proto/message.h"
#include "sidecar/sidecar.h"

#define PROBE_PATH "/csi.v1.Identity/Probe"

#define PROBE_DEFAULT_MS 5000U
#define RETRY_MS         1000U /* between probes of a driver that is not ready */
#define BACKOFF_FIRST_MS 50U
#define BACKOFF_MAX_MS   1000U
#define ANSWER_MAX_BYTES (1U << 20) /* of a unary call */

struct sidecar_driver {
	struct sidecar_driver_options options;
	struct net_channel *channels[SIDECAR_LOOPS_MAX];
	struct net_loop *loops[SIDECAR_LOOPS_MAX];
	unsigned n_loops;
	_Atomic(char *) name;
	struct cairn_ticker ticker;

	/* Used only on the thread. */
	bool known; /* name and capabilities were checked since it last failed */

	pthread_mutex_t lock;
	/* Guarded by the lock. */
	bool ready;
	bool stopping;
	struct net_rpc *current; /* of the thread; NULL between calls */
	char why[CAIRN_ERR_TEXT_MAX];
};

/* --- one probe; on the thread --- */

/* Publishes the current call, so that freeing the driver can cancel it. */
static int set_current(struct sidecar_driver *d, struct net_rpc *rpc, struct cairn_err *err)
{
	cairn_scoped_lock(&d->lock);
	if (rpc && d->stopping)
		return cairn_err_set(err, CAIRN_CANCELLED, "the sidecar is stopping");
	d->current = rpc;
	return 0;
}

static int take_answer(struct net_rpc *rpc, const ProtobufCMessageDescriptor *type,
		       ProtobufCMessage **ret, struct cairn_err *err)
{
	const uint8_t *data = NULL;
	size_t n = 0;
	int rc = net_rpc_send(rpc, "", 0, true, err);

	if (rc)
		return rc;
	rc = net_rpc_recv(rpc, &data, &n, err);
	if (rc == 0)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "there was no answer");
	if (rc < 0)
		return rc;
	if (n > ANSWER_MAX_BYTES)
		return cairn_err_set(err, CAIRN_INTERNAL, "the answer is too large");
	rc = proto_unpack(type, data, n, ret, err);
	if (!rc)
		rc = net_rpc_recv(rpc, &data, &n, err);
	return rc <= 0 ? rc : cairn_err_set(err, CAIRN_INTERNAL, "there were two answers");
}

static int driver_channel_call(void *arg, const char *path, const ProtobufCMessageDescriptor *type,
			       ProtobufCMessage **ret, struct cairn_err *err)
{
	struct sidecar_driver *d = arg;
	struct net_rpc_options options = {
		.path = path, .timeout_ms = d->options.timeout_ms, .identity_only = true};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	uint64_t start = cairn_monotonic_ns();
	int rc = net_rpc_start(d->channels[0], &options, &rpc, err);

	if (!rc)
		rc = set_current(d, rpc, err);
	if (!rc)
		rc = take_answer(rpc, type, ret, err);
	if (!rc && !*ret)
		rc = cairn_err_nomem(err, "answer");
	set_current(d, NULL, NULL);
	if (d->options.called)
		d->options.called(d->options.arg, path, -rc, cairn_monotonic_ns() - start);
	return rc ? cairn_err_wrap(err, "%s", strrchr(path, '/') + 1) : 0;
}

static int learn_name(struct sidecar_driver *d, struct cairn_err *err)
{
	const struct csi_client client = {.call = driver_channel_call, .arg = d};
	const char *known = atomic_load(&d->name);
	cairn_auto_free char *name = NULL;
	int rc = csi_client_name(&client, &name, NULL, err);

	if (rc)
		return rc;
	if (known && strcmp(known, name) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the CSI driver is '%s', and was '%s'; restart the sidecar",
				     name, known);
	if (known)
		return 0;
	known = cairn_take(name);
	atomic_store(&d->name, (char *)(uintptr_t)known);
	if (d->options.named)
		d->options.named(d->options.arg, known);
	return 0;
}

static int check_capabilities(struct sidecar_driver *d, struct cairn_err *err)
{
	const struct csi_client client = {.call = driver_channel_call, .arg = d};
	struct csi_client_services services;
	int rc = csi_client_services(&client, &services, err);

	if (rc || services.snapshot_metadata || d->options.sessions)
		return rc;
	return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
			     "the CSI driver does not offer SNAPSHOT_METADATA_SERVICE");
}

static int driver_channel_probe(struct sidecar_driver *d, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__ProbeResponse *response;
	int rc = driver_channel_call(d, PROBE_PATH, &csi__v1__probe_response__descriptor, &message,
				     err);

	if (rc)
		return rc;
	response = (const void *)message;
	if (response->ready && !response->ready->value)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the CSI driver is still starting");
	return 0;
}

static int driver_channel_look(struct sidecar_driver *d, struct cairn_err *err)
{
	int rc = d->known ? 0 : learn_name(d, err);

	if (!rc)
		rc = driver_channel_probe(d, err);
	if (!rc && !d->known)
		rc = check_capabilities(d, err);
	d->known = rc == 0;
	return rc;
}

/* --- the thread --- */

static void driver_channel_tell(struct sidecar_driver *d, bool ready, const char *why)
{
	bool news;

	pthread_mutex_lock(&d->lock);
	news = d->ready != ready || strcmp(d->why, why) != 0;
	d->ready = ready;
	snprintf(d->why, sizeof(d->why), "%s", why);
	pthread_mutex_unlock(&d->lock);
	if (news && d->options.changed)
		d->options.changed(d->options.arg, ready, ready ? atomic_load(&d->name) : why);
}

static uint64_t driver_channel_tick(void *arg)
{
	struct sidecar_driver *d = arg;
	struct cairn_err err = {0};
	int rc = driver_channel_look(d, &err);

	driver_channel_tell(d, rc == 0, err.msg);
	return rc == 0 ? d->options.probe_ms : RETRY_MS;
}

/* --- public functions --- */

static int make_channels(struct sidecar_driver *d, struct cairn_err *err)
{
	const char *address = d->options.address;
	bool path = address[0] == '/' || address[0] == '.';
	cairn_auto_free char *target = cairn_printf("%s%s", path ? "unix:" : "", address);
	struct net_channel_options options = {
		.target = target,
		.server_name = "localhost",
		.message_max = d->options.message_max,
		.stream_window = SIDECAR_DRIVER_WINDOW,
		/* The limit applies also before the relay of a stream has started. */
		.recv_bytes = SIDECAR_READ_AHEAD,
		.backoff_first_ms = BACKOFF_FIRST_MS,
		.backoff_max_ms = BACKOFF_MAX_MS,
	};

	if (!target)
		return cairn_err_nomem(err, "driver");
	for (unsigned i = 0; i < d->n_loops; i++) {
		int rc;

		d->loops[i] = options.loop = net_server_loop(d->options.server, i);
		rc = net_channel_new(&options, &d->channels[i], err);
		if (rc)
			return cairn_err_wrap(err, "CSI driver");
	}
	return 0;
}

int sidecar_driver_new(const struct sidecar_driver_options *options, struct sidecar_driver **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(sidecar_driver_freep) struct sidecar_driver *d = cairn_calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return cairn_err_nomem(err, "driver");
	d->options = *options;
	d->n_loops = net_server_loops(options->server);
	if (d->n_loops > SIDECAR_LOOPS_MAX)
		d->n_loops = SIDECAR_LOOPS_MAX;
	if (!d->options.probe_ms)
		d->options.probe_ms = PROBE_DEFAULT_MS;
	pthread_mutex_init(&d->lock, NULL);
	snprintf(d->why, sizeof(d->why), "the CSI driver was not reached yet");
	rc = make_channels(d, err);
	if (!rc)
		rc = cairn_ticker_start(&d->ticker, "driver", 0, driver_channel_tick, d, err);
	if (!rc)
		*ret = cairn_take(d);
	return rc;
}

void sidecar_driver_free(struct sidecar_driver *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	if (d->current)
		net_rpc_cancel(d->current);
	pthread_mutex_unlock(&d->lock);
	cairn_ticker_stop(&d->ticker);
	for (unsigned i = 0; i < d->n_loops; i++)
		net_channel_free(d->channels[i]);
	pthread_mutex_destroy(&d->lock);
	free(atomic_load(&d->name));
	free(d);
}

const char *sidecar_driver_name(struct sidecar_driver *driver)
{
	return atomic_load(&driver->name);
}

bool sidecar_driver_ready(struct sidecar_driver *driver, char *why, size_t cap)
{
	cairn_scoped_lock(&driver->lock);
	if (why)
		snprintf(why, cap, "%s", driver->why);
	return driver->ready;
}

void sidecar_driver_doubt(struct sidecar_driver *driver)
{
	cairn_ticker_hurry(&driver->ticker);
}

int sidecar_driver_stream(struct sidecar_driver *driver, const struct net_loop *loop,
			  const char *path, const void *request, size_t n, uint64_t timeout_ms,
			  struct net_rpc **ret, struct cairn_err *err)
{
	const struct net_rpc_options options = {
		.path = path, .timeout_ms = timeout_ms, .identity_only = true};
	unsigned i = 0;

	for (unsigned k = 0; k < driver->n_loops; k++)
		if (driver->loops[k] == loop)
			i = k;
	return net_rpc_request(driver->channels[i], &options, request, n, ret, err);
}
