/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/reflection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "grpc_reflection.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/call_places.h"
#include "net/grpc/grpc_server_impl.h"
#include "proto/descriptors.h"
#include "proto/message.h"

#define SERVICES_MAX  64 /* listed */
#define REQUEST_MAX   4096
#define RESPONSE_MAX  (4U << 20)
#define NAME_MAX_LEN  255
#define ERR_NOT_FOUND 5

struct net_reflection {
	struct net_server *server;
	struct proto_bytes sets[NET_REFLECTION_SETS_MAX];
	size_t n_sets;
	struct net_call_places callers;
};

typedef Grpc__Reflection__V1__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_t;

static int send_response(struct net_call *call, response_t *response, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(RESPONSE_MAX);

	proto_pack(&response->base, &buf);
	if (cairn_buf_failed(&buf))
		return cairn_err_nomem(err, "reflection response");
	return net_call_send(call, buf.data, buf.len, err);
}

static int answer_error(struct net_call *call, response_t *response, const char *text,
			struct cairn_err *err)
{
	Grpc__Reflection__V1__ErrorResponse error;
	char copy[64];
	int rc;

	grpc__reflection__v1__error_response__init(&error);
	error.error_code = ERR_NOT_FOUND;
	snprintf(copy, sizeof(copy), "%s", text);
	error.error_message = copy;
	response->message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	response->error_response = &error;
	rc = send_response(call, response, err);
	response->error_response = NULL;
	return rc;
}

static int answer_file(struct net_reflection *r, struct net_call *call, response_t *response,
		       struct proto_bytes file, struct cairn_err *err)
{
	Grpc__Reflection__V1__FileDescriptorResponse files;
	struct proto_bytes closure[PROTO_FILES_MAX];
	ProtobufCBinaryData data[PROTO_FILES_MAX];
	int rc;

	grpc__reflection__v1__file_descriptor_response__init(&files);
	files.n_file_descriptor_proto = proto_file_closure(r->sets, r->n_sets, file, closure);
	for (size_t i = 0; i < files.n_file_descriptor_proto; i++)
		data[i] = (ProtobufCBinaryData){.len = closure[i].len,
						.data = (uint8_t *)(uintptr_t)closure[i].data};
	files.file_descriptor_proto = data;
	response->message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	response->file_descriptor_response = &files;
	rc = send_response(call, response, err);
	response->file_descriptor_response = NULL;
	return rc;
}

struct service_list {
	char names[SERVICES_MAX][NAME_MAX_LEN + 1];
	Grpc__Reflection__V1__ServiceResponse items[SERVICES_MAX];
	Grpc__Reflection__V1__ServiceResponse *pointers[SERVICES_MAX];
	size_t n;
};

static void add_service(void *arg, const char *path)
{
	struct service_list *list = arg;
	const char *slash = strchr(path + 1, '/');
	size_t n = (size_t)(slash - path) - 1;

	if (n > NAME_MAX_LEN || list->n == SERVICES_MAX)
		return;
	for (size_t i = 0; i < list->n; i++) {
		if (strlen(list->names[i]) == n && memcmp(list->names[i], path + 1, n) == 0)
			return;
	}
	memcpy(list->names[list->n], path + 1, n);
	list->names[list->n][n] = '\0';
	grpc__reflection__v1__service_response__init(&list->items[list->n]);
	list->items[list->n].name = list->names[list->n];
	list->pointers[list->n] = &list->items[list->n];
	list->n++;
}

static int answer_list(struct net_reflection *r, struct net_call *call, response_t *response,
		       struct cairn_err *err)
{
	cairn_auto_free struct service_list *list = cairn_calloc(1, sizeof(*list));
	Grpc__Reflection__V1__ListServiceResponse services;
	int rc;

	if (!list)
		return cairn_err_nomem(err, "service list");
	net_methods_each(r->server->methods, add_service, list);
	grpc__reflection__v1__list_service_response__init(&services);
	services.n_service = list->n;
	services.service = list->pointers;
	response->message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
	response->list_services_response = &services;
	rc = send_response(call, response, err);
	response->list_services_response = NULL;
	return rc;
}

static int reflection_answer(struct net_reflection *r, struct net_call *call, request_t *request,
			     struct cairn_err *err)
{
	struct proto_bytes file;
	response_t response;

	grpc__reflection__v1__server_reflection_response__init(&response);
	response.valid_host = request->host;
	response.original_request = request;
	switch (request->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		return answer_list(r, call, &response, err);
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		if (proto_file_by_name(r->sets, r->n_sets, request->file_by_filename, &file))
			return answer_file(r, call, &response, file, err);
		return answer_error(call, &response, "no such file", err);
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		if (proto_file_by_symbol(r->sets, r->n_sets, request->file_containing_symbol,
					 &file))
			return answer_file(r, call, &response, file, err);
		return answer_error(call, &response, "no such symbol", err);
	default:
		return answer_error(call, &response, "no extensions here", err);
	}
}

static int reflection_serve(struct net_reflection *r, struct net_call *call, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_call_recv(call, &data, &n, err)) == 1) {
		proto_auto_message ProtobufCMessage *message = NULL;

		rc = proto_unpack(&grpc__reflection__v1__server_reflection_request__descriptor,
				  data, n, &message, err);
		if (rc == 0)
			rc = reflection_answer(r, call, (request_t *)message, err);
		if (rc != 0)
			return rc;
	}
	return rc;
}

static int reflection_info(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct net_reflection *r = arg;
	struct net_call_place place;
	int rc = net_call_places_enter(&r->callers, call, &place, err);

	if (rc != 0)
		return rc;
	rc = reflection_serve(r, call, err);
	if (rc == 0)
		rc = net_call_places_check(&r->callers, &place, err);
	net_call_places_leave(&r->callers, &place);
	return rc;
}

int net_reflection_new(struct net_server *server, struct net_reflection **ret,
		       struct cairn_err *err)
{
	struct net_reflection *r = cairn_calloc(1, sizeof(*r));
	const struct net_method methods[] = {
		{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", NET_BIDI,
		 reflection_info, r, REQUEST_MAX},
		{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", NET_BIDI,
		 reflection_info, r, REQUEST_MAX},
	};
	int rc;

	if (!r)
		return cairn_err_nomem(err, "reflection");
	r->server = server;
	net_call_places_init(&r->callers);
	rc = net_server_add(server, methods, sizeof(methods) / sizeof(methods[0]), err);
	if (rc != 0) {
		net_reflection_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void net_reflection_free(struct net_reflection *r)
{
	if (!r)
		return;
	net_call_places_done(&r->callers);
	free(r);
}

int net_reflection_add(struct net_reflection *r, const void *set, size_t n, struct cairn_err *err)
{
	if (r->n_sets == NET_REFLECTION_SETS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "more than %d descriptor sets",
				     NET_REFLECTION_SETS_MAX);
	r->sets[r->n_sets++] = (struct proto_bytes){.data = set, .len = n};
	return 0;
}
