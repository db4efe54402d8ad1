/* SPDX-License-Identifier: Apache-2.0 */

/* Load on a CSI driver: many clients that create, write, snapshot, stream and
 * delete at once, while the driver is perhaps killed and started again.
 *
 *   soak-csi --clients N --seconds N [--kill-every SECONDS] --socket PATH
 *            --volumes DIR -- DRIVER COMMAND …
 *
 * The driver is started by this program. DIR is where it keeps volumes as
 * DIR/<id>/disk; writing goes there, so no root is needed. Each client keeps
 * its own truth: what was acknowledged must be there, also after a kill, every
 * delta must cover what was written, and a call that met a killed driver must
 * succeed when it is repeated. Any code but ABORTED (and UNAVAILABLE around a
 * kill) is a failure. Prints latencies and ends with 0 or 1.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "block/extent.h"
#include "csi_controller.pb-c.h"
#include "csi_metadata.pb-c.h"
#include "net/client.h"
#include "net/signals.h"
#include "proto/block_metadata.h"
#include "proto/message.h"

#define VOLUME_SIZE (16ULL << 20)
#define BLOCK       4096ULL
#define BLOCKS      (VOLUME_SIZE / BLOCK)
#define CALL_MS     30000
#define RETRY_MAX   2000
#define CLIENTS_MAX 256
#define SAMPLES_MAX 200000
#define REQUEST_MAX 65536

static const char *socket_path, *volumes_dir;
static uint64_t n_clients = 64, seconds = 20, kill_every;
static char **driver_argv;
static atomic_int driver_pid;
static atomic_bool stop, failed;
static struct net_channel *channel;
static atomic_uint_fast64_t calls, aborted, unavailable, streams, cycles;

struct samples {
	pthread_mutex_t mutex;
	size_t n;
	uint32_t us[SAMPLES_MAX];
};

static struct samples snapshot_us = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static struct samples first_byte_us = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((format(printf, 1, 2))) static void fault(const char *fmt, ...)
{
	va_list args;

	failed = true;
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static void sample(struct samples *samples, uint64_t since_ns)
{
	uint64_t us = (cairn_monotonic_ns() - since_ns) / 1000;

	pthread_mutex_lock(&samples->mutex);
	if (samples->n < SAMPLES_MAX)
		samples->us[samples->n++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
	pthread_mutex_unlock(&samples->mutex);
}

static bool may_retry(int rc)
{
	if (rc == CAIRN_ABORTED)
		aborted++;
	else if (rc == CAIRN_UNAVAILABLE && kill_every)
		unavailable++;
	else
		return false;
	cairn_sleep_ms(1 + (uint64_t)rand() % 20);
	return true;
}

/* Calls until it succeeds; NULL after a failure that may not be. */
static ProtobufCMessage *call(const char *method, const ProtobufCMessage *request,
			      const ProtobufCMessageDescriptor *type)
{
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(REQUEST_MAX);
	struct net_rpc_options options = {
		.path = method, .timeout_ms = CALL_MS, .wait_for_ready = true};
	struct cairn_err err = {0};
	int rc = CAIRN_ABORTED;

	proto_pack(request, &bytes);
	for (int try = 0; try < RETRY_MAX; try++) {
		cairn_auto_free uint8_t *reply = NULL;
		ProtobufCMessage *message = NULL;
		size_t n;

		calls++;
		rc = net_rpc_unary(channel, &options, bytes.data ? bytes.data : (uint8_t *)&n,
				   bytes.len, &reply, &n, &err);
		if (!rc)
			rc = proto_unpack(type, reply, n, &message, &err);
		if (!rc)
			return message;
		if (!may_retry(rc))
			break;
	}
	fault("%s: %s: %s", method, cairn_code_name(rc), err.msg);
	return NULL;
}

static bool create_volume(const char *name, char id[65])
{
	Csi__V1__CreateVolumeRequest request;
	Csi__V1__CapacityRange range;
	Csi__V1__VolumeCapability capability, *list[] = {&capability};
	Csi__V1__VolumeCapability__BlockVolume block;
	Csi__V1__VolumeCapability__AccessMode mode;
	proto_auto_message ProtobufCMessage *reply = NULL;

	csi__v1__create_volume_request__init(&request);
	csi__v1__capacity_range__init(&range);
	csi__v1__volume_capability__init(&capability);
	csi__v1__volume_capability__block_volume__init(&block);
	csi__v1__volume_capability__access_mode__init(&mode);
	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	capability.block = &block;
	capability.access_mode = &mode;
	range.required_bytes = VOLUME_SIZE;
	request.name = (char *)(uintptr_t)name;
	request.capacity_range = &range;
	request.volume_capabilities = list;
	request.n_volume_capabilities = 1;
	reply = call("/csi.v1.Controller/CreateVolume", &request.base,
		     &csi__v1__create_volume_response__descriptor);
	if (!reply)
		return false;
	snprintf(id, 65, "%s", ((Csi__V1__CreateVolumeResponse *)(void *)reply)->volume->volume_id);
	return true;
}

static bool create_snapshot(const char *volume_id, const char *name, char id[65])
{
	Csi__V1__CreateSnapshotRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;
	uint64_t start = cairn_monotonic_ns();

	csi__v1__create_snapshot_request__init(&request);
	request.source_volume_id = (char *)(uintptr_t)volume_id;
	request.name = (char *)(uintptr_t)name;
	reply = call("/csi.v1.Controller/CreateSnapshot", &request.base,
		     &csi__v1__create_snapshot_response__descriptor);
	if (!reply)
		return false;
	sample(&snapshot_us, start);
	snprintf(id, 65, "%s",
		 ((Csi__V1__CreateSnapshotResponse *)(void *)reply)->snapshot->snapshot_id);
	return true;
}

static bool delete_snapshot(const char *id)
{
	Csi__V1__DeleteSnapshotRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;

	csi__v1__delete_snapshot_request__init(&request);
	request.snapshot_id = (char *)(uintptr_t)id;
	reply = call("/csi.v1.Controller/DeleteSnapshot", &request.base,
		     &csi__v1__delete_snapshot_response__descriptor);
	return reply != NULL;
}

static bool delete_volume(const char *id)
{
	Csi__V1__DeleteVolumeRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;

	csi__v1__delete_volume_request__init(&request);
	request.volume_id = (char *)(uintptr_t)id;
	reply = call("/csi.v1.Controller/DeleteVolume", &request.base,
		     &csi__v1__delete_volume_response__descriptor);
	return reply != NULL;
}

static int mark(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	bool *seen = arg;

	(void)err;
	for (uint64_t b = extent->offset / BLOCK; b * BLOCK < block_extent_end(extent); b++)
		if (b < BLOCKS)
			seen[b] = true;
	return 0;
}

/* One try at a stream; `seen` holds what it reported. */
static int stream_once(const struct cairn_buf *request, bool seen[BLOCKS], struct cairn_err *err)
{
	struct net_rpc_options options = {.path = "/csi.v1.SnapshotMetadata/GetMetadataDelta",
					  .timeout_ms = CALL_MS,
					  .wait_for_ready = true};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct block_sink sink = {.emit = mark, .arg = seen};
	struct proto_block_scan scan = {0};
	uint64_t start = cairn_monotonic_ns();
	const uint8_t *data;
	size_t n;
	int rc = net_rpc_start(channel, &options, &rpc, err);

	memset(seen, 0, BLOCKS);
	if (!rc)
		rc = net_rpc_send(rpc, request->data, request->len, true, err);
	while (!rc && (rc = net_rpc_recv(rpc, &data, &n, err)) == 1) {
		if (scan.messages == 0)
			sample(&first_byte_us, start);
		rc = proto_block_scan(&scan, data, n, &sink, err);
	}
	if (!rc && scan.capacity != VOLUME_SIZE)
		fault("delta: capacity %" PRIu64, scan.capacity);
	streams++;
	return rc;
}

static bool check_delta(const char *base, const char *target, const bool written[BLOCKS])
{
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(REQUEST_MAX);
	Csi__V1__GetMetadataDeltaRequest request;
	struct cairn_err err = {0};
	bool seen[BLOCKS];
	int rc = CAIRN_ABORTED;

	csi__v1__get_metadata_delta_request__init(&request);
	request.base_snapshot_id = (char *)(uintptr_t)base;
	request.target_snapshot_id = (char *)(uintptr_t)target;
	proto_pack(&request.base, &bytes);
	for (int try = 0; try < RETRY_MAX; try++) {
		rc = stream_once(&bytes, seen, &err);
		if (!rc || !may_retry(rc))
			break;
	}
	if (rc) {
		fault("delta %s %s: %s: %s", base, target, cairn_code_name(rc), err.msg);
		return false;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		if (written[i] && !seen[i]) {
			fault("delta %s %s: block %zu was missed", base, target, i);
			return false;
		}
	return true;
}

static bool write_blocks(const char *volume_id, bool written[BLOCKS], unsigned *seed)
{
	char path[4096], data[BLOCK];
	int fd;

	memset(written, 0, BLOCKS);
	snprintf(path, sizeof(path), "%s/%s/disk", volumes_dir, volume_id);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		fault("%s: %s", path, strerrorname_np(errno));
		return false;
	}
	for (int i = 0; i < 20; i++) {
		uint64_t block = (uint64_t)rand_r(seed) % BLOCKS;

		for (size_t j = 0; j < sizeof(data); j += sizeof(int))
			memcpy(data + j, &(int){rand_r(seed)}, sizeof(int));
		if (pwrite(fd, data, sizeof(data), (off_t)(block * BLOCK)) != sizeof(data))
			fault("write: %s", strerrorname_np(errno));
		written[block] = true;
	}
	close(fd);
	return true;
}

static bool cycle(unsigned client, unsigned round, unsigned *seed)
{
	char name[64], volume[65], s1[65], s2[65];
	bool written[BLOCKS];

	snprintf(name, sizeof(name), "c%u-%u", client, round);
	if (!create_volume(name, volume) || !write_blocks(volume, written, seed))
		return false;
	snprintf(name, sizeof(name), "c%u-%u-a", client, round);
	if (!create_snapshot(volume, name, s1) || !write_blocks(volume, written, seed))
		return false;
	snprintf(name, sizeof(name), "c%u-%u-b", client, round);
	if (!create_snapshot(volume, name, s2) || !check_delta(s1, s2, written))
		return false;
	if (!delete_snapshot(s1) || !check_delta(s1, s2, written))
		return false;
	cycles++;
	return delete_snapshot(s2) && delete_volume(volume);
}

static void *client_main(void *arg)
{
	unsigned client = (unsigned)(uintptr_t)arg, seed = client + 1;

	for (unsigned round = 0; !stop && !failed; round++)
		if (!cycle(client, round, &seed))
			break;
	return NULL;
}

static void start_driver(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		execvp(driver_argv[0], driver_argv);
		_exit(127);
	}
	driver_pid = pid;
}

static void end_driver(int signal)
{
	int status = 0;

	kill(driver_pid, signal);
	waitpid(driver_pid, &status, 0);
	if (signal == SIGTERM && status != 0)
		fault("the driver ended with status 0x%x", status);
}

static uint64_t driver_rss_kib(void)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", driver_pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmRSS:", 6) == 0) {
			char *digits = line + strcspn(line, "0123456789");

			digits[strspn(digits, "0123456789")] = '\0';
			(void)cairn_parse_u64(digits, &kib, NULL);
		}
	if (file)
		fclose(file);
	return kib;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *what, struct samples *samples)
{
	size_t middle = samples->n / 2, late = samples->n * 99 / 100;

	if (samples->n == 0)
		return;
	qsort(samples->us, samples->n, sizeof(samples->us[0]), by_value);
	printf("%-24s n %6zu  p50 %8.2f ms  p99 %8.2f ms  max %8.2f ms\n", what, samples->n,
	       samples->us[middle] / 1e3, samples->us[late] / 1e3,
	       samples->us[samples->n - 1] / 1e3);
}

/* Nothing that a client deleted may be left. */
static void check_empty(void)
{
	Csi__V1__ListVolumesRequest volumes;
	Csi__V1__ListSnapshotsRequest snapshots;
	proto_auto_message ProtobufCMessage *v = NULL, *s = NULL;

	csi__v1__list_volumes_request__init(&volumes);
	csi__v1__list_snapshots_request__init(&snapshots);
	v = call("/csi.v1.Controller/ListVolumes", &volumes.base,
		 &csi__v1__list_volumes_response__descriptor);
	s = call("/csi.v1.Controller/ListSnapshots", &snapshots.base,
		 &csi__v1__list_snapshots_response__descriptor);
	if (v && ((Csi__V1__ListVolumesResponse *)(void *)v)->n_entries != 0)
		fault("volumes are left");
	if (s && ((Csi__V1__ListSnapshotsResponse *)(void *)s)->n_entries != 0)
		fault("snapshots are left");
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];

		if (strcmp(argv[i], "--") == 0) {
			driver_argv = argv + i + 1;
			break;
		}
		if (strcmp(argv[i], "--clients") == 0)
			(void)cairn_parse_u64(value, &n_clients, NULL);
		else if (strcmp(argv[i], "--seconds") == 0)
			(void)cairn_parse_u64(value, &seconds, NULL);
		else if (strcmp(argv[i], "--kill-every") == 0)
			(void)cairn_parse_u64(value, &kill_every, NULL);
		else if (strcmp(argv[i], "--socket") == 0)
			socket_path = value;
		else if (strcmp(argv[i], "--volumes") == 0)
			volumes_dir = value;
	}
	if (!driver_argv || !socket_path || !volumes_dir || n_clients > CLIENTS_MAX) {
		fprintf(stderr, "see the head of soak_csi.c for how to call this\n");
		exit(2);
	}
}

static void run_load(void)
{
	pthread_t threads[CLIENTS_MAX];
	uint64_t kills = 0;

	for (uint64_t i = 0; i < n_clients; i++)
		pthread_create(&threads[i], NULL, client_main, (void *)(uintptr_t)i);
	for (uint64_t second = 1; second <= seconds && !failed; second++) {
		cairn_sleep_ms(1000);
		if (kill_every && second % kill_every == 0 && second < seconds) {
			end_driver(SIGKILL);
			start_driver();
			kills++;
		}
	}
	stop = true;
	for (uint64_t i = 0; i < n_clients; i++)
		pthread_join(threads[i], NULL);
	printf("%" PRIu64 " clients, %" PRIu64 " s, %" PRIu64 " kills\n", n_clients, seconds,
	       kills);
}

int main(int argc, char **argv)
{
	struct net_channel_options options = {.backoff_first_ms = 20, .backoff_max_ms = 200};
	struct cairn_err err = {0};
	char target[256];
	sigset_t signals;

	parse(argc, argv);
	net_signals_block(&signals);
	snprintf(target, sizeof(target), "unix:%s", socket_path);
	options.target = target;
	start_driver();
	if (net_channel_new(&options, &channel, &err) != 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	run_load();
	check_empty();
	printf("calls %" PRIu64 ", cycles %" PRIu64 ", streams %" PRIu64 ", aborted %" PRIu64
	       ", unavailable %" PRIu64 ", driver RSS %" PRIu64 " KiB\n",
	       (uint64_t)calls, (uint64_t)cycles, (uint64_t)streams, (uint64_t)aborted,
	       (uint64_t)unavailable, driver_rss_kib());
	report("CreateSnapshot", &snapshot_us);
	report("first message of Delta", &first_byte_us);
	net_channel_free(channel);
	end_driver(SIGTERM);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
