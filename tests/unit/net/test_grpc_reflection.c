/* SPDX-License-Identifier: Apache-2.0 */

/* Server reflection as tools ask for it, and as nobody should. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "grpc_reflection.pb-c.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "proto/descriptors.h"
#include "proto/message.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_t;

#define ASKED(what) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##what
#define TOLD(what)  GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##what
#define NOT_FOUND   5

struct world {
	char dir[64], socket[96], target[128];
	struct net_server *server;
	struct net_channel *channel;
	struct net_rpc *rpc;
};

static void open_stream(struct world *w, const char *version)
{
	char path[96];
	struct net_rpc_options options = {.path = path, .timeout_ms = 60000};
	struct cairn_err err = {0};

	snprintf(path, sizeof(path), "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo",
		 version);
	assert_ok(net_rpc_start(w->channel, &options, &w->rpc, &err), &err);
}

static int start(void **state)
{
	static struct world w;
	struct proto_bytes set = proto_descriptors_cairn();
	struct net_server_options server = {0};
	struct net_channel_options channel = {.target = w.target};
	struct cairn_err err = {0};

	scratch_template(w.dir, "reflection");
	assert_non_null(mkdtemp(w.dir));
	snprintf(w.socket, sizeof(w.socket), "%s/s", w.dir);
	snprintf(w.target, sizeof(w.target), "unix:%s", w.socket);
	assert_ok(net_server_new(&server, &w.server, &err), &err);
	assert_ok(net_server_add_reflection(w.server, set.data, set.len, &err), &err);
	assert_ok(net_server_listen_unix(w.server, w.socket, 0600, &err), &err);
	assert_ok(net_server_start(w.server, &err), &err);
	assert_ok(net_channel_new(&channel, &w.channel, &err), &err);
	*state = &w;
	return 0;
}

static int stop(void **state)
{
	struct world *w = *state;

	net_channel_free(w->channel);
	net_server_free(w->server);
	rmdir(w->dir);
	return 0;
}

/* One question, and its answer: the caller's, by proto_message_free(). */
static const response_t *ask(struct world *w, const request_t *request, ProtobufCMessage **ret)
{
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(65536);
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	proto_pack(&request->base, &bytes);
	assert_ok(net_rpc_send(w->rpc, bytes.data, bytes.len, false, &err), &err);
	assert_int_equal(net_rpc_recv(w->rpc, &data, &n, &err), 1);
	assert_ok(proto_unpack(&grpc__reflection__v1__server_reflection_response__descriptor, data,
			       n, ret, &err),
		  &err);
	return (const void *)*ret;
}

static request_t question(int what, const char *text)
{
	request_t r;

	grpc__reflection__v1__server_reflection_request__init(&r);
	r.message_request_case = (unsigned)what;
	/* All of them but one are text, and the union begins with it. */
	r.file_by_filename = (char *)(uintptr_t)text;
	return r;
}

static bool names(const response_t *told, const char *service)
{
	for (size_t i = 0; i < told->list_services_response->n_service; i++)
		if (strcmp(told->list_services_response->service[i]->name, service) == 0)
			return true;
	return false;
}

static void services_are_listed_under_both_versions(void **state)
{
	static const char *const versions[] = {"v1", "v1alpha"};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		request_t r = question(ASKED(LIST_SERVICES), "");
		proto_auto_message ProtobufCMessage *message = NULL;
		const response_t *told;

		open_stream(w, versions[i]);
		told = ask(w, &r, &message);
		assert_int_equal(told->message_response_case, TOLD(LIST_SERVICES_RESPONSE));
		assert_true(names(told, "grpc.health.v1.Health"));
		assert_true(names(told, "grpc.reflection.v1.ServerReflection"));
		assert_false(names(told, "csi.v1.Node")); /* described, not served */
		net_rpc_free(w->rpc);
	}
}

static void each_question_of_a_stream_gets_its_answer(void **state)
{
	static const struct {
		int what;
		const char *text;
		int told; /* files, or -1 for an error */
	} cases[] = {
		{ASKED(FILE_CONTAINING_SYMBOL), "csi.v1.Snapshot", 2},
		{ASKED(FILE_CONTAINING_SYMBOL), "csi.v1.Controller.CreateVolume", 1},
		{ASKED(FILE_CONTAINING_SYMBOL), "csi.v1.Controller", 1},
		{ASKED(FILE_BY_FILENAME), "csi_types.proto", 1},
		{ASKED(FILE_CONTAINING_SYMBOL), "", -1},
		{ASKED(FILE_CONTAINING_SYMBOL), ".", -1},
		{ASKED(FILE_CONTAINING_SYMBOL), ".csi.v1.Snapshot", -1},
		{ASKED(FILE_CONTAINING_SYMBOL), "csi.v1.Snapsho", -1},
		{ASKED(FILE_CONTAINING_SYMBOL), "csi.v1.Snapshot.", -1},
		{ASKED(FILE_CONTAINING_SYMBOL), "csi", -1},
		{ASKED(FILE_BY_FILENAME), "../../etc/passwd", -1},
		{ASKED(FILE_BY_FILENAME), "", -1},
		{ASKED(ALL_EXTENSION_NUMBERS_OF_TYPE), "csi.v1.Snapshot", -1},
		{ASKED(_NOT_SET), NULL, -1},
	};
	struct world *w = *state;

	open_stream(w, "v1");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		request_t r = question(cases[i].what, cases[i].text);
		proto_auto_message ProtobufCMessage *message = NULL;
		const response_t *told;

		r.host = (char *)(uintptr_t) "here";
		told = ask(w, &r, &message);
		assert_string_equal(told->valid_host, "here");
		assert_int_equal(told->original_request->message_request_case, cases[i].what);
		if (cases[i].told < 0) {
			if (told->message_response_case != TOLD(ERROR_RESPONSE))
				fail_msg("case %zu: '%s' was found", i, cases[i].text);
			assert_int_equal(told->error_response->error_code, NOT_FOUND);
			assert_true(told->error_response->error_message[0]);
		} else if (told->message_response_case != TOLD(FILE_DESCRIPTOR_RESPONSE) ||
			   (int)told->file_descriptor_response->n_file_descriptor_proto <
				   cases[i].told) {
			fail_msg("case %zu: no file of '%s'", i, cases[i].text);
		}
	}
	net_rpc_free(w->rpc);
}

static void what_is_no_question_ends_the_stream_only(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int code;
	} cases[] = {
		{"\xff\xff\xff", 3, CAIRN_INVALID},
		{"\x22\x7fxx", 4, CAIRN_INVALID},   /* longer than there is */
		{"\x22\x01\xff", 3, CAIRN_INVALID}, /* no UTF-8 */
		{"\x22\x01\0", 3, CAIRN_INVALID},
	};
	static const uint8_t large[5000];
	struct world *w = *state;
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		open_stream(w, "v1");
		assert_ok(net_rpc_send(w->rpc, cases[i].bytes, cases[i].n, true, &err), &err);
		assert_code(net_rpc_recv(w->rpc, &data, &n, &err), cases[i].code);
		net_rpc_free(w->rpc);
	}
	open_stream(w, "v1");
	assert_ok(net_rpc_send(w->rpc, large, sizeof(large), true, &err), &err);
	assert_code(net_rpc_recv(w->rpc, &data, &n, &err), CAIRN_NO_SPACE);
	net_rpc_free(w->rpc);
	open_stream(w, "v1"); /* none at all is fine */
	assert_ok(net_rpc_send_end(w->rpc, &err), &err);
	assert_int_equal(net_rpc_recv(w->rpc, &data, &n, &err), 0);
	net_rpc_free(w->rpc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_are_listed_under_both_versions),
		cmocka_unit_test(each_question_of_a_stream_gets_its_answer),
		cmocka_unit_test(what_is_no_question_ends_the_stream_only),
	};

	return cmocka_run_group_tests_name("net/grpc reflection", tests, start, stop);
}
