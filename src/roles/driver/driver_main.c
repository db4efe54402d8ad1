/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn driver`: wiring of pools, CSI services and a gRPC server. */

#include "roles/driver/driver_options.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "csi/csi_driver.h"
#include "csi/monitor.h"
#include "csi/registration.h"
#include "net/grpc/grpc_server.h"
#include "net/signals.h"
#include "proto/descriptors.h"
#include "roles/role.h"

#define SOCKET_MODE 0660
#define IDLE_MS     1000

/* How long a driver runs at least before it opens stopped pools again. Each time that it
 * stops soon after, another process keeps the filesystem: the time doubles, because callers
 * lose their connection. */
#define REOPEN_MS     5000U
#define REOPEN_MAX_MS 600000U

/* Parses the pools: the one of --pool is named "default", --pools adds others. Modifies `text`. */
static int read_pools(const char *first, char *text, struct csi_pool_spec *specs, size_t *ret_n,
		      struct cairn_err *err)
{
	char *item;
	size_t n = 0;

	specs[n++] = (struct csi_pool_spec){.name = "default", .dir = first};
	while (text && (item = strsep(&text, ","))) {
		char *equals = strchr(item, '=');

		if (!equals || equals == item || !equals[1])
			return cairn_err_set(err, CAIRN_INVALID, "--pools: '%s' is not NAME=DIR",
					     item);
		if (n == CSI_POOLS_MAX)
			return cairn_err_set(err, CAIRN_INVALID, "--pools: more than %u",
					     CSI_POOLS_MAX);
		*equals = '\0';
		specs[n++] = (struct csi_pool_spec){.name = item, .dir = equals + 1};
	}
	*ret_n = n;
	return 0;
}

static unsigned older_of(const struct driver_options *o)
{
	return (o->sessions ? CSI_OLDER_SESSIONS : 0U) |
	       (o->differential ? CSI_OLDER_DIFFERENTIAL : 0U) |
	       (o->deltas ? CSI_OLDER_DELTAS : 0U);
}

static int driver_main_make_driver(const struct driver_options *o, struct csi_driver **ret,
				   struct cairn_err *err)
{
	cairn_auto_free char *text = o->more_pools ? cairn_strdup(o->more_pools) : NULL;
	struct csi_pool_spec specs[CSI_POOLS_MAX];
	struct csi_options options = {
		.name = o->name,
		.version = CAIRN_VERSION,
		.node_id = o->node_id,
		.pools = specs,
		.topology = o->topology,
		.node_expansion = o->node_expansion,
		.fixed_length = o->fixed_length,
		.volumes_max = o->volumes_max,
		.older = older_of(o),
		.delta_block = o->delta_block,
		.compare_max = o->compare_max,
		.token_ttl_s = o->token_ms / 1000 + (o->token_ms % 1000 != 0),
	};
	int rc;

	if (o->more_pools && !text)
		return cairn_err_nomem(err, "driver");
	rc = read_pools(cmd_pool_dir(), text, specs, &options.n_pools, err);
	return rc ? rc : csi_driver_new(&options, ret, err);
}

/* Everything that runs; freed from the last to the first. */
struct running {
	struct csi_driver *driver;
	struct net_server *server;
	struct csi_monitor *monitor;
	struct csi_registration *registration;
};

/* Stops the monitor's thread first, then frees the server, whose handlers use the driver
 * and the monitor. */
static void driver_running_done(struct running *running)
{
	csi_monitor_stop(running->monitor);
	csi_registration_freep(&running->registration);
	net_server_freep(&running->server);
	csi_monitor_freep(&running->monitor);
	csi_driver_freep(&running->driver);
}

/* The group is set after the socket was created, which is safe: no connection is accepted yet. */
static int listen_on_socket(struct running *running, const struct driver_options *o,
			    struct cairn_err *err)
{
	const char *path = driver_endpoint_path(o->endpoint);
	int rc = net_server_listen_unix(running->server, path, SOCKET_MODE, err);

	if (rc || o->endpoint_group == UINT64_MAX)
		return rc;
	return lchown(path, (uid_t)-1, (gid_t)o->endpoint_group) == 0
		       ? 0
		       : cairn_err_sys(err, errno, "group of '%s'", path);
}

static int register_driver(struct running *running, const struct driver_options *o,
			   struct cairn_err *err)
{
	struct csi_registration_options options = {
		.directory = o->registration_dir,
		.name = o->name,
		.endpoint = o->registration_path,
	};

	return o->registration_path ? csi_registration_new(&options, &running->registration, err)
				    : 0;
}

static int driver_watch(struct running *running, const struct driver_options *o,
			struct cairn_err *err)
{
	struct csi_monitor_options options = {
		.address = o->http_address,
		.driver = running->driver,
		.server = running->server,
		.registration = running->registration,
	};

	return o->http_address ? csi_monitor_new(&options, &running->monitor, err) : 0;
}

static int driver_start(struct running *running, const struct driver_options *o,
			struct cairn_err *err)
{
	struct proto_bytes set = proto_descriptors_cairn();
	struct net_server_options options = {.name = "csi"};
	int rc = driver_main_make_driver(o, &running->driver, err);

	if (!rc)
		rc = net_server_new(&options, &running->server, err);
	if (!rc)
		rc = csi_driver_serve(running->driver, running->server, err);
	if (!rc)
		rc = net_server_add_reflection(running->server, set.data, set.len, err);
	if (!rc)
		rc = listen_on_socket(running, o, err);
	if (!rc)
		rc = register_driver(running, o, err);
	if (!rc)
		rc = driver_watch(running, o, err);
	return rc ? rc : net_server_start(running->server, err);
}

/* A driver is idle most of the time: after a second without a call it returns memory that
 * can be read from disk again. */
struct idle {
	uint64_t before;
	uint64_t given_back;
};

static void driver_look_for_idle(const struct net_server *server, struct idle *idle)
{
	struct net_server_stats stats;

	net_server_stats(server, &stats);
	if (stats.calls_total != idle->given_back && stats.calls_total == idle->before &&
	    stats.calls_open == 0) {
		malloc_trim(0);
		cairn_mem_drop_clean();
		idle->given_back = stats.calls_total;
	}
	idle->before = stats.calls_total;
}

static uint64_t driver_next_reopening(uint64_t reopen_ms, uint64_t ran_ms)
{
	if (ran_ms > 2 * reopen_ms)
		return REOPEN_MS;
	return reopen_ms < REOPEN_MAX_MS / 2 ? reopen_ms * 2 : REOPEN_MAX_MS;
}

/* Waits for a signal to stop: false. True when a pool's storage has stopped and everything
 * must be opened again, not before *reopen_ms have passed. */
static bool driver_wait_for_end(const struct running *running, const sigset_t *signals,
				uint64_t *reopen_ms)
{
	uint64_t start = cairn_monotonic_ns();
	struct idle idle = {0};
	int number;

	cairn_mem_drop_clean();
	while ((number = net_signals_wait(signals, IDLE_MS)) == 0 || number == SIGHUP) {
		uint64_t ran_ms = (cairn_monotonic_ns() - start) / CAIRN_NS_PER_MS;

		driver_look_for_idle(running->server, &idle);
		if (ran_ms >= *reopen_ms && csi_driver_wants_reopening(running->driver)) {
			*reopen_ms = driver_next_reopening(*reopen_ms, ran_ms);
			return true;
		}
	}
	return false;
}

static int driver_run_once(const sigset_t *signals, uint64_t *reopen_ms, bool *ret_again,
			   struct cairn_err *err)
{
	const struct driver_options *options = &driver_options;
	cairn_cleanup(driver_running_done) struct running running = {0};
	unsigned cut;
	int rc = driver_start(&running, options, err);

	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("endpoint", options->endpoint),
		  CAIRN_STR("driver", options->name), CAIRN_STR("node", options->node_id));
	*ret_again = driver_wait_for_end(&running, signals, reopen_ms);
	if (*ret_again)
		cairn_log(CAIRN_LOG_WARN, "a pool's filesystem has shut down; opening it again");
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", options->drain_ms));
	cut = net_server_drain(running.server, options->drain_ms);
	if (cut > 0)
		cairn_log(CAIRN_LOG_WARN, "calls were cut off", CAIRN_U64("calls", cut));
	return 0;
}

/* Whether opening the pools may succeed later: storage that stopped, a host without space for
 * the log of an image, or a lock that another process holds. */
static bool driver_may_open_later(int rc)
{
	return rc == CAIRN_UNAVAILABLE || rc == CAIRN_NO_SPACE || rc == CAIRN_ABORTED;
}

/* Waits before the storage that stopped is tried again; false if the driver is to stop. */
static bool driver_wait_for_storage(const sigset_t *signals, uint64_t *reopen_ms,
				    const struct cairn_err *err)
{
	int number;

	cairn_log(CAIRN_LOG_WARN, "a pool cannot be opened again yet",
		  CAIRN_STR("error", err->msg));
	number = net_signals_wait(signals, *reopen_ms);
	*reopen_ms = driver_next_reopening(*reopen_ms, 0);
	return number == 0 || number == SIGHUP;
}

static int driver_run(struct cairn_err *err)
{
	uint64_t reopen_ms = REOPEN_MS;
	bool again = true, has_served = false;
	sigset_t signals;
	int rc = 0;

	net_signals_block(&signals);
	while (again && !rc) {
		rc = driver_run_once(&signals, &reopen_ms, &again, err);
		has_served = has_served || !rc;
		if (!driver_may_open_later(rc) || !has_served)
			continue;
		again = driver_wait_for_storage(&signals, &reopen_ms, err);
		rc = 0;
	}
	return rc;
}

int main(int argc, char **argv)
{
	return role_server_main(&cmd_driver, driver_run, argc, argv);
}
