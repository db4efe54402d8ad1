/* SPDX-License-Identifier: Apache-2.0 */

/* Sidecars of two nodes, each with a driver of its own: streams reach the driver of the
 * snapshot's node, or fail with the node's name. */

#include "cairntest.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "block/extent.h"
#include "csi_metadata.pb-c.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "sidecar/route.h"
#include "sidecar/snapshot_node.h"
#include "sidecar_driver.h"
#include "tls_files.h"

#define STEP        8192U /* between the tuples of stage_send() */
#define PER_MESSAGE 10U
#define TUPLES      400U
#define LONG_MS     60000U
#define CALL_LIMIT  120000U
#define DAY         86400L
#define NODES       2U

static const char *const names[NODES] = {"one", "two"};
static unsigned places; /* for streams, with rights that are not cached; 0: many */

struct node {
	struct sidecar_stage stage;
	char cert[128], key[128];
	_Atomic unsigned calls; /* of its driver */
	_Atomic int answer;     /* code instead of messages */
	_Atomic uint64_t stop;  /* tuples, then the stream hangs */
};

static struct {
	struct node nodes[NODES];
	char dir[64], ca[128], near_ca[128]; /* node one has an authority file of its own */
	_Atomic unsigned ports[NODES];       /* where the map says that they are; 0: nowhere */
} net;

/* --- the network --- */

static int find_node(void *self, const char *name, char ret[SIDECAR_ROUTE_ADDRESS_MAX],
		     struct cairn_err *err)
{
	(void)self;
	for (unsigned i = 0; i < NODES; i++)
		if (strcmp(names[i], name) == 0 && net.ports[i]) {
			snprintf(ret, SIDECAR_ROUTE_ADDRESS_MAX, "127.0.0.1:%u", net.ports[i]);
			return 0;
		}
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "no sidecar on '%s'", name);
}

static int answer(struct sidecar_stage *s, struct net_call *call, const uint8_t *request, size_t n,
		  struct cairn_err *err)
{
	struct node *node = (struct node *)(void *)s; /* its first member */
	bool delta = strstr(net_call_path(call), "Delta") != NULL;
	uint64_t i = delta ? 0 : (stage_offset_of(request, n) + STEP - 1) / STEP;
	int rc = 0;

	node->calls++;
	if (node->answer)
		return cairn_err_set(err, node->answer, "the driver says so");
	for (; i < TUPLES && rc == 0; i += PER_MESSAGE) {
		while (rc == 0 && i >= node->stop)
			rc = net_call_sleep(call, 5, err);
		if (rc == 0)
			rc = stage_send(s, call, i, PER_MESSAGE, err);
	}
	return rc;
}

static void node_start(unsigned i, uint64_t resume_ms)
{
	struct node *node = &net.nodes[i];
	struct sidecar_options options = {
		.keep_ms = places ? 1 : LONG_MS,
		.streams = places,
		.resume_ms = resume_ms,
		.route = {.node = names[i],
			  .listen = "127.0.0.1:0",
			  .cert_file = node->cert,
			  .key_file = node->key,
			  .ca_file = i == 0 ? net.near_ca : net.ca,
			  .map = {.find = find_node}},
	};

	stage_start(&node->stage, &options);
	stage_wait_ready(&node->stage, true);
	net.ports[i] = sidecar_port_for_nodes(node->stage.sidecar);
	assert_int_not_equal(net.ports[i], 0);
}

static void node_certificate(unsigned i, const struct tls_pair *ca)
{
	char alt[64], file[32];
	struct tls_pair leaf;

	snprintf(alt, sizeof(alt), "DNS:%s.cairn-route", names[i]);
	leaf = tls_pair_make(&(struct tls_pair_spec){
		.name = names[i], .alt = alt, .issuer = ca, .not_before = -DAY, .not_after = DAY});
	snprintf(file, sizeof(file), "%s.pem", names[i]);
	tls_cert_write(net.dir, file, &leaf);
	snprintf(net.nodes[i].cert, sizeof(net.nodes[i].cert), "%s/%s", net.dir, file);
	snprintf(file, sizeof(file), "%s.key", names[i]);
	tls_key_write(net.dir, file, &leaf);
	snprintf(net.nodes[i].key, sizeof(net.nodes[i].key), "%s/%s", net.dir, file);
	tls_pair_done(&leaf);
}

/* A snapshot of `home` whose content has csi-snapshotter's label; every node sees it. */
static void put_snapshot(const char *name, const char *home)
{
	char text[1024], content[64];

	snprintf(content, sizeof(content), "c-%s", name);
	snprintf(text, sizeof(text),
		 "{'metadata': {'labels': {'" KUBE_SNAPSHOT_NODE_LABEL "': '%s'}},"
		 " 'spec': {'driver': '" WORLD_DRIVER "', 'source': {'volumeHandle': 'vol'},"
		 " 'volumeSnapshotRef': {'namespace': 'ns', 'name': '%s', 'uid': 'uid-%s'}},"
		 " 'status': {'readyToUse': true, 'snapshotHandle': 'h-%s'}}",
		 home, name, name, name);
	for (unsigned i = 0; i < NODES; i++) {
		world_snapshot(&net.nodes[i].stage.world, "ns", name);
		world_put(&net.nodes[i].stage.world, "volumesnapshotcontents", NULL, content, text);
	}
}

static void net_start(uint64_t resume_ms)
{
	struct tls_pair ca;

	memset(&net, 0, sizeof(net));
	scratch_template(net.dir, "route");
	assert_non_null(mkdtemp(net.dir));
	snprintf(net.ca, sizeof(net.ca), "%s/ca.pem", net.dir);
	snprintf(net.near_ca, sizeof(net.near_ca), "%s/near.pem", net.dir);
	ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "route", .not_before = -DAY, .not_after = DAY});
	tls_cert_write(net.dir, "ca.pem", &ca);
	tls_cert_write(net.dir, "near.pem", &ca);
	for (unsigned i = 0; i < NODES; i++) {
		node_certificate(i, &ca);
		net.nodes[i].stop = UINT64_MAX;
		stage_prepare(&net.nodes[i].stage);
		net.nodes[i].stage.script = answer;
		stage_driver_start(&net.nodes[i].stage);
		node_start(i, resume_ms);
	}
	tls_pair_done(&ca);
	put_snapshot("first", names[0]);
	put_snapshot("second", names[1]);
}

static void net_stop(void)
{
	static const char *const files[] = {"ca.pem",  "near.pem", "one.pem",
					    "one.key", "two.pem",  "two.key"};
	char path[128];

	for (unsigned i = 0; i < NODES; i++)
		stage_stop(&net.nodes[i].stage);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", net.dir, files[i]);
		unlink(path);
	}
	rmdir(net.dir);
}

/* The sidecar of a node ends, as with its pod; its driver goes on. */
static void node_end_sidecar(unsigned i)
{
	net_channel_free(net.nodes[i].stage.channel);
	sidecar_free(net.nodes[i].stage.sidecar);
	net_tls_free(net.nodes[i].stage.client_tls);
	net.nodes[i].stage.channel = NULL;
	net.nodes[i].stage.sidecar = NULL;
	net.nodes[i].stage.client_tls = NULL;
}

/* --- calls --- */

struct seen {
	uint64_t next; /* index of the tuple that must come */
};

static int take_tuple(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct seen *seen = arg;

	(void)err;
	assert_int_equal(extent->offset, seen->next * STEP);
	seen->next++;
	return 0;
}

/* Receives until `until` tuples are there or the stream ends; 1 while it goes on. */
static int receive(struct net_rpc *rpc, struct proto_block_scan *scan, struct seen *seen,
		   uint64_t until, struct cairn_err *err)
{
	struct block_sink sink = {.emit = take_tuple, .arg = seen};
	const uint8_t *data;
	int rc = 1;
	size_t n;

	while (seen->next < until && (rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
		assert_ok(proto_block_scan(scan, data, n, &sink, err), err);
	return rc;
}

static int call_whole(unsigned at, const char *token, const char *snapshot, uint64_t *ret_tuples,
		      struct cairn_err *err)
{
	struct proto_block_scan scan = {0};
	struct seen seen = {0};
	struct net_rpc *rpc = stage_call(&net.nodes[at].stage, token, NULL, snapshot, CALL_LIMIT);
	int rc = receive(rpc, &scan, &seen, UINT64_MAX, err);

	net_rpc_free(rpc);
	*ret_tuples = seen.next;
	return rc;
}

/* A stream from node one of what node two has, which stopped in the middle. */
struct halfway {
	struct net_rpc *rpc;
	struct proto_block_scan scan;
	struct seen seen;
};

static void halfway_start(struct halfway *h)
{
	struct cairn_err err = {0};

	net.nodes[1].stop = TUPLES / 2;
	h->rpc = stage_call(&net.nodes[0].stage, "good", NULL, "second", CALL_LIMIT);
	assert_int_equal(receive(h->rpc, &h->scan, &h->seen, TUPLES / 2, &err), 1);
}

/* The other half arrives, and nothing twice. */
static void halfway_finish(struct halfway *h)
{
	struct cairn_err err = {0};

	assert_ok(receive(h->rpc, &h->scan, &h->seen, UINT64_MAX, &err), &err);
	assert_int_equal(h->seen.next, TUPLES);
	net_rpc_free(h->rpc);
}

/* --- where streams go --- */

static void each_snapshot_is_answered_by_its_node(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	for (unsigned at = 0; at < NODES; at++) {
		assert_ok(call_whole(at, "good", "first", &tuples, &err), &err);
		assert_int_equal(tuples, TUPLES);
		assert_ok(call_whole(at, "good", "second", &tuples, &err), &err);
		assert_int_equal(tuples, TUPLES);
	}
	assert_int_equal(net.nodes[0].calls, 2);
	assert_int_equal(net.nodes[1].calls, 2);
	assert_ok(
		stage_finish(stage_call(&net.nodes[0].stage, "good", "h-old", "second", CALL_LIMIT),
			     NULL, &err),
		&err);
	assert_int_equal(net.nodes[1].calls, 3); /* a delta too */
	net_stop();
}

static void a_snapshot_without_a_node_is_answered_here(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	assert_ok(call_whole(0, "good", "snap", &tuples, &err), &err);
	assert_int_equal(net.nodes[0].calls, 1);
	/* The driver here does not have it, which says nothing of the others. */
	net.nodes[0].answer = CAIRN_NOT_FOUND;
	assert_code(call_whole(0, "good", "snap", &tuples, &err), CAIRN_PRECONDITION);
	assert_non_null(strstr(err.msg, "belongs to no known node"));
	net_stop();
}

static void put_volume(struct sidecar_world *world, const char *handle)
{
	char text[1024];

	world_put(world, "volumesnapshots", "ns", "snap",
		  "{'metadata': {'uid': 'uid-snap'},"
		  " 'spec': {'source': {'persistentVolumeClaimName': 'claim'}},"
		  " 'status': {'readyToUse': true, 'boundVolumeSnapshotContentName': 'c-snap'}}");
	world_put(world, "persistentvolumeclaims", "ns", "claim", "{'spec': {'volumeName': 'pv'}}");
	snprintf(text, sizeof(text),
		 "{'spec': {'csi': {'driver': '" WORLD_DRIVER "', 'volumeHandle': '%s'},"
		 " 'nodeAffinity': {'required': {'nodeSelectorTerms': [{'matchExpressions':"
		 " [{'key': 'topology.test/node', 'operator': 'In', 'values': ['two']}]}]}}}}",
		 handle);
	world_put(world, "persistentvolumes", NULL, "pv", text);
}

static void without_the_label_the_volume_says_the_node(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	put_volume(&net.nodes[0].stage.world, "vol");
	put_volume(&net.nodes[1].stage.world, "another"); /* the claim was made again */
	assert_ok(call_whole(0, "good", "snap", &tuples, &err), &err);
	assert_int_equal(net.nodes[0].calls, 0);
	assert_int_equal(net.nodes[1].calls, 1);
	assert_ok(call_whole(1, "good", "snap", &tuples, &err), &err);
	assert_int_equal(net.nodes[1].calls, 2);
	net_stop();
}

static void only_one_value_of_an_affinity_is_a_node(void **state)
{
	static const struct {
		const char *terms, *node;
	} cases[] = {
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['a']}]}]", "a"},
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['a','b']}]}]",
		 NULL},
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'NotIn', 'values': ['a']}]}]",
		 NULL},
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['a']},"
		 "{'key': 'z', 'operator': 'In', 'values': ['b']}]}]",
		 NULL},
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['a']}]},"
		 "{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['b']}]}]",
		 NULL},
		{"[{'matchExpressions': [{'key': 'k', 'operator': 'In', 'values': ['a']}],"
		 "'matchFields': [{'key': 'metadata.name'}]}]",
		 NULL},
		{"[]", NULL},
		{"'two'", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[512];
		kube_auto_json json_t *volume = NULL;
		const char *node;

		snprintf(text, sizeof(text),
			 "{'spec': {'nodeAffinity': {'required': {'nodeSelectorTerms': %s}}}}",
			 cases[i].terms);
		for (char *c = text; *c; c++)
			*c = *c == '\'' ? '"' : *c;
		volume = json_loads(text, 0, NULL);
		assert_non_null(volume);
		node = sidecar_volume_node(volume);
		if ((node == NULL) != (cases[i].node == NULL) ||
		    (node && strcmp(node, cases[i].node) != 0))
			fail_msg("%zu: %s", i, node ? node : "none");
	}
}

/* --- who gets in --- */

static void a_refused_caller_reaches_no_other_node(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	world_token(&net.nodes[0].stage.world, "eves", "aud", "eve");
	assert_code(call_whole(0, "bad", "second", &tuples, &err), CAIRN_UNAUTHENTICATED);
	assert_code(call_whole(0, "eves", "second", &tuples, &err), CAIRN_DENIED);
	assert_int_equal(net.nodes[1].calls, 0);
	net_stop();
}

static struct net_channel *open_route(const char *target, struct net_tls *tls, const char *name)
{
	struct net_channel_options to = {
		.target = target, .tls = tls, .server_name = name, .connect_ms = LONG_MS};
	struct net_channel *channel = NULL;
	struct cairn_err err = {0};

	assert_ok(net_channel_new(&to, &channel, &err), &err);
	return channel;
}

static int call_on(struct net_channel *channel, const void *request, size_t n,
		   struct cairn_err *err)
{
	struct net_rpc_options how = {.path = SIDECAR_ROUTE_ALLOCATED, .timeout_ms = LONG_MS};
	struct net_rpc *rpc = NULL;
	int rc;

	assert_ok(net_rpc_start(channel, &how, &rpc, err), err);
	rc = net_rpc_send(rpc, request, n, true, err);
	if (rc == 0)
		return stage_finish(rpc, NULL, err);
	net_rpc_free(rpc);
	return rc;
}

static int call_route(const char *target, struct net_tls *tls, const char *name,
		      struct cairn_err *err)
{
	struct net_channel *channel = open_route(target, tls, name);
	int rc = call_on(channel, "", 0, err);

	net_channel_free(channel);
	return rc;
}

static void only_a_certificate_of_the_route_opens_it(void **state)
{
	struct sidecar_stage *stage;
	struct net_tls *tls = NULL;
	struct cairn_err err = {0};
	char target[64];

	(void)state;
	net_start(LONG_MS);
	stage = &net.nodes[1].stage;
	/* The public port has no such method. */
	assert_code(call_route(stage->target, stage->client_tls, "127.0.0.1", &err),
		    CAIRN_UNIMPLEMENTED);
	/* No certificate, then one that another authority signed (the public one's). */
	snprintf(target, sizeof(target), "127.0.0.1:%u", net.ports[1]);
	for (int own = 0; own < 2; own++) {
		const struct net_tls_options options = {.ca_file = net.ca,
							.cert_file = own ? stage->cert : NULL,
							.key_file = own ? stage->key : NULL,
							.h2 = true};

		assert_ok(net_tls_client_new(&options, &tls, &err), &err);
		assert_code(call_route(target, tls, "two.cairn-route", &err), CAIRN_UNAVAILABLE);
		net_tls_free(tls);
	}
	assert_int_equal(net.nodes[1].calls, 0);
	net_stop();
}

/* The owner of a stolen certificate keeps a connection open; the authority is replaced. */
static void a_connection_ends_with_its_authority(void **state)
{
	const struct net_tls_options options = {.ca_file = net.ca,
						.cert_file = net.nodes[0].cert,
						.key_file = net.nodes[0].key,
						.h2 = true};
	uint64_t until = cairn_monotonic_ns() + LONG_MS * CAIRN_NS_PER_MS;
	struct net_channel *channel;
	struct net_tls *tls = NULL;
	struct cairn_err err = {0};
	struct tls_pair other;
	char target[64];
	int rc;

	(void)state;
	net_start(LONG_MS);
	snprintf(target, sizeof(target), "127.0.0.1:%u", net.ports[1]);
	assert_ok(net_tls_client_new(&options, &tls, &err), &err);
	channel = open_route(target, tls, "two.cairn-route");
	assert_ok(call_on(channel, "", 0, &err), &err);
	other = tls_pair_make(
		&(struct tls_pair_spec){.name = "other", .not_before = -DAY, .not_after = DAY});
	tls_cert_write(net.dir, "ca.pem", &other);
	do {
		err = (struct cairn_err){0};
		rc = call_on(channel, "", 0, &err);
	} while (rc == 0 && cairn_monotonic_ns() < until);
	assert_code(rc, CAIRN_UNAVAILABLE);
	tls_pair_done(&other);
	net_channel_free(channel);
	net_tls_free(tls);
	net_stop();
}

/* Calls from node one of what node two has, until the result is `wanted`. */
static void call_until(int wanted)
{
	uint64_t until = cairn_monotonic_ns() + LONG_MS * CAIRN_NS_PER_MS, tuples = 0;
	struct cairn_err err;
	int rc;

	do {
		err = (struct cairn_err){0};
		rc = call_whole(0, "good", "second", &tuples, &err);
		cairn_sleep_ms(rc == wanted ? 0 : 10);
	} while (rc != wanted && cairn_monotonic_ns() < until);
	assert_code(rc, wanted);
}

/* The near end of a route: a node that has a new authority does not believe what comes over a
 * connection to a node of the old one, and reaches that node again with the authority back. */
static void a_node_of_a_replaced_authority_is_not_asked(void **state)
{
	cairn_auto_free char *kept = NULL;
	cairn_auto_fd int dir = -1;
	struct tls_pair other;
	struct cairn_err err = {0};
	unsigned calls;
	size_t n;

	(void)state;
	net_start(100);
	dir = open(net.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(dir, 0);
	call_until(0);
	assert_ok(cairn_file_read(AT_FDCWD, net.ca, 1 << 20, &kept, &n, &err), &err);
	other = tls_pair_make(
		&(struct tls_pair_spec){.name = "other", .not_before = -DAY, .not_after = DAY});
	tls_cert_write(net.dir, "near.pem", &other);
	call_until(CAIRN_UNAVAILABLE);
	calls = net.nodes[1].calls;
	call_until(CAIRN_UNAVAILABLE);
	assert_int_equal(net.nodes[1].calls, calls);
	tls_pair_done(&other);
	assert_ok(cairn_file_replace(dir, "near.pem", kept, n, &err), &err);
	call_until(0);
	net_stop();
}

/* Both ends have a line: where the caller was checked, and where the driver was asked. */
static void a_routed_stream_is_in_both_audit_logs(void **state)
{
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	FILE *file = tmpfile();
	char text[4096] = "";
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	assert_non_null(file);
	assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
	assert_ok(
		stage_finish(stage_call(&net.nodes[0].stage, "good", "h-old", "second", CALL_LIMIT),
			     NULL, &err),
		&err);
	net_stop();
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_non_null(strstr(text, "\"audit\":\"GetMetadataDelta\",\"decision\":\"allowed\","
				     "\"user\":\"ann\""));
	assert_non_null(strstr(text,
			       "\"audit\":\"route GetMetadataDelta\",\"decision\":"
			       "\"allowed\",\"user\":\"node:/CN=one\",\"peer\":\"127.0.0.1:"));
	assert_non_null(strstr(text, "\"namespace\":\"\",\"snapshot\":\"h-second\","
				     "\"base\":\"h-old\",\"bytes\":"));
}

static void no_node_answers_for_another(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(100);
	net.ports[1] = net.ports[0]; /* the second node's address is taken */
	assert_code(call_whole(0, "good", "second", &tuples, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "two"));
	assert_int_equal(net.nodes[0].calls + net.nodes[1].calls, 0);
	net_stop();
}

/* --- nodes that go and come --- */

static void who_waited_for_a_node_is_checked_again(void **state)
{
	struct net_rpc *rpcs[4];
	struct cairn_err err = {0};

	(void)state;
	places = 4; /* and 3 for a node */
	net_start(LONG_MS);
	net.nodes[1].stop = 0;
	for (unsigned i = 0; i < 3; i++)
		rpcs[i] = stage_call(&net.nodes[0].stage, "good", NULL, "second", CALL_LIMIT);
	while (net.nodes[1].calls < 3)
		cairn_sleep_ms(5);
	rpcs[3] = stage_call(&net.nodes[0].stage, "bobs", NULL, "second", CALL_LIMIT);
	cairn_sleep_ms(100);
	world_forbid(&net.nodes[0].stage.world, "bob", "ns", "*");
	net.nodes[1].stop = UINT64_MAX;
	for (unsigned i = 0; i < 3; i++)
		assert_ok(stage_finish(rpcs[i], NULL, &err), &err);
	assert_code(stage_finish(rpcs[3], NULL, &err), CAIRN_DENIED);
	assert_int_equal(net.nodes[1].calls, 3);
	net_stop();
	places = 0;
}

static void a_node_that_is_gone_is_named(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(100);
	node_end_sidecar(1);
	assert_code(call_whole(0, "good", "second", &tuples, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "node 'two'"));
	net.ports[1] = 0;
	assert_code(call_whole(0, "good", "second", &tuples, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "node 'two'"));
	assert_ok(call_whole(0, "good", "first", &tuples, &err), &err);
	net_stop();
}

static void a_driver_here_is_not_needed_for_another_node(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	stage_driver_stop(&net.nodes[0].stage);
	stage_wait_ready(&net.nodes[0].stage, false);
	assert_ok(call_whole(0, "good", "second", &tuples, &err), &err);
	assert_int_equal(tuples, TUPLES);
	net_stop();
}

static void a_stream_survives_the_driver_of_another_node(void **state)
{
	struct sidecar_stage *far = &net.nodes[1].stage;
	struct halfway stream = {0};

	(void)state;
	net_start(LONG_MS);
	halfway_start(&stream);
	stage_driver_stop(far);
	stage_wait_ready(far, false);
	net.nodes[1].stop = UINT64_MAX;
	stage_driver_start(far);
	halfway_finish(&stream);
	net_stop();
}

static void a_stream_follows_a_sidecar_to_another_address(void **state)
{
	struct halfway stream = {0};

	(void)state;
	net_start(LONG_MS);
	halfway_start(&stream);
	net.ports[1] = 0;
	node_end_sidecar(1);
	net.nodes[1].stop = UINT64_MAX;
	node_start(1, LONG_MS);
	halfway_finish(&stream);
	net_stop();
}

static void the_drivers_own_refusal_is_passed_on(void **state)
{
	uint64_t tuples = 0;
	struct cairn_err err = {0};

	(void)state;
	net_start(LONG_MS);
	net.nodes[1].answer = CAIRN_PRECONDITION;
	assert_code(call_whole(0, "good", "second", &tuples, &err), CAIRN_PRECONDITION);
	assert_non_null(strstr(err.msg, "the driver says so"));
	/* A driver that is busy says so at its first answer, and is believed. */
	net.nodes[1].answer = CAIRN_UNAVAILABLE;
	assert_code(call_whole(0, "good", "second", &tuples, &err), CAIRN_UNAVAILABLE);
	assert_int_equal(net.nodes[1].calls, 2);
	net_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_snapshot_is_answered_by_its_node),
		cmocka_unit_test(a_snapshot_without_a_node_is_answered_here),
		cmocka_unit_test(without_the_label_the_volume_says_the_node),
		cmocka_unit_test(only_one_value_of_an_affinity_is_a_node),
		cmocka_unit_test(a_refused_caller_reaches_no_other_node),
		cmocka_unit_test(only_a_certificate_of_the_route_opens_it),
		cmocka_unit_test(a_connection_ends_with_its_authority),
		cmocka_unit_test(a_node_of_a_replaced_authority_is_not_asked),
		cmocka_unit_test(a_routed_stream_is_in_both_audit_logs),
		cmocka_unit_test(no_node_answers_for_another),
		cmocka_unit_test(who_waited_for_a_node_is_checked_again),
		cmocka_unit_test(a_node_that_is_gone_is_named),
		cmocka_unit_test(a_driver_here_is_not_needed_for_another_node),
		cmocka_unit_test(a_stream_survives_the_driver_of_another_node),
		cmocka_unit_test(a_stream_follows_a_sidecar_to_another_address),
		cmocka_unit_test(the_drivers_own_refusal_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
