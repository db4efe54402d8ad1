/* SPDX-License-Identifier: Apache-2.0 */

/* The flow of a snapshot session, as a backup application goes through it: a request, its
 * token, and the changed blocks of the second snapshot, one "OFFSET LENGTH" a line.
 *
 *	session-client NAMESPACE BASE TARGET
 *
 * It runs in a pod whose service account may create SnapshotSessionRequests and get the
 * VolumeSnapshots. The volume's handle is read from the VolumeSnapshotContent, which the
 * account must be allowed to get; $VOLUME overrides it. Outside a pod, set
 * $KUBERNETES_SERVICE_HOST, $KUBERNETES_SERVICE_PORT and $ACCOUNT, a directory with the
 * files ca.crt and token.
 *
 * It needs libcurl, jansson and protobuf-c, and nothing of Cairn but the .proto file:
 *
 *	protoc -I /usr/local/share/cairn/proto --c_out=. snapshot_session.proto
 *	cc session-client.c snapshot_session.pb-c.c \
 *		$(pkg-config --cflags --libs libcurl jansson libprotobuf-c)
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>
#include <jansson.h>

#include "snapshot_session.pb-c.h"

#define API         "/apis/cbt.storage.k8s.io/v1alpha2"
#define SNAPSHOTS   "/apis/snapshot.storage.k8s.io/v1"
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

#define GRPC_HEAD        5U /* flag of compression, and the length of the message */
#define GRPC_MESSAGE_MAX (4U << 20)
#define GRPC_UNAVAILABLE 14
#define TRIES            5
#define READY_SECONDS    60

struct bytes {
	char *data;
	size_t n;
};

/* The blocks that were printed, and the bytes of a message that is not complete. */
struct stream {
	struct bytes pending;
	uint64_t position; /* behind the last block: where a new stream goes on */
	int status;        /* of gRPC; -1 before the trailer has come */
	char message[256];
};

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "session-client: %s: %s\n", what, why);
	exit(1);
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void append(struct bytes *to, const char *data, size_t n)
{
	char *grown = realloc(to->data, to->n + n + 1);

	if (!grown)
		die("memory", "out of memory");
	to->data = grown;
	memcpy(to->data + to->n, data, n);
	to->n += n;
	to->data[to->n] = '\0';
}

/* ---- Kubernetes ---- */

static size_t on_bytes(char *data, size_t size, size_t n, void *to)
{
	append(to, data, size * n);
	return size * n;
}

static const char *account_file(const char *name)
{
	static char path[512];
	const char *directory = getenv("ACCOUNT");

	snprintf(path, sizeof(path), "%s/%s", directory ? directory : ACCOUNT_DIR, name);
	return path;
}

/* The token is read for each request: a projected one is replaced before it expires. */
static struct curl_slist *kube_headers(void)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	char token[8192], field[8300];
	FILE *file = fopen(account_file("token"), "r");

	if (!file || !fgets(token, sizeof(token), file))
		die(account_file("token"), "cannot be read");
	fclose(file);
	token[strcspn(token, "\r\n")] = '\0';
	snprintf(field, sizeof(field), "Authorization: Bearer %s", token);
	return curl_slist_append(headers, field);
}

/* Returns the object that the API server answers with; ends the program if it refuses. */
static json_t *kube(const char *method, const char *path, const json_t *body)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	struct curl_slist *headers = kube_headers();
	CURL *curl = curl_easy_init();
	char *text = body ? json_dumps(body, 0) : NULL;
	struct bytes answer = {0};
	char url[1024];
	json_t *object;
	CURLcode rc;
	long code = 0;

	snprintf(url, sizeof(url), "https://%s:%s%s", host ? host : "", port ? port : "443", path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(curl, CURLOPT_CAINFO, account_file("ca.crt"));
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
	if (text)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
	rc = curl_easy_perform(curl);
	if (rc != CURLE_OK)
		die("the API server", curl_easy_strerror(rc));
	object = json_loads(answer.data ? answer.data : "", 0, NULL);
	if (!object)
		die(path, "the answer is not JSON");
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
	if (code >= 300) {
		const char *message = json_string_value(json_object_get(object, "message"));

		die(path, message ? message : "refused");
	}
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	free(answer.data);
	free(text);
	return object;
}

static char *volume_handle(const char *namespace, const char *snapshot)
{
	json_t *object, *content;
	const char *given = getenv("VOLUME"), *name = NULL, *handle = NULL;
	char path[1024];
	char *copy;

	if (given)
		return strdup(given);
	snprintf(path, sizeof(path), SNAPSHOTS "/namespaces/%s/volumesnapshots/%s", namespace,
		 snapshot);
	object = kube("GET", path, NULL);
	if (json_unpack(object, "{s:{s:s}}", "status", "boundVolumeSnapshotContentName", &name))
		die(snapshot, "is not bound");
	snprintf(path, sizeof(path), SNAPSHOTS "/volumesnapshotcontents/%s", name);
	content = kube("GET", path, NULL);
	if (json_unpack(content, "{s:{s:{s:s}}}", "spec", "source", "volumeHandle", &handle) ||
	    !handle)
		die(name, "names no volume");
	copy = strdup(handle);
	json_decref(object);
	json_decref(content);
	return copy;
}

/* Ready or Failed; anything else is waited for. Returns its status. */
static json_t *wait_for_session(const char *path)
{
	for (int i = 0; i < READY_SECONDS * 2; i++) {
		json_t *object = kube("GET", path, NULL);
		json_t *status = json_incref(json_object_get(object, "status"));
		const char *state = json_string_value(json_object_get(status, "sessionState"));
		const char *error = json_string_value(json_object_get(status, "error"));

		json_decref(object);
		if (state && strcmp(state, "Failed") == 0)
			die(path, error ? error : "failed");
		if (state && strcmp(state, "Ready") == 0)
			return status;
		json_decref(status);
		pause_ms(500);
	}
	die(path, "is still pending");
	return NULL;
}

/* ---- gRPC: HTTP/2 with length-prefixed messages and a status in the trailer ---- */

static void print_blocks(struct stream *stream, const GetDeltaResponse *page)
{
	for (size_t i = 0; i < page->n_block_metadata; i++) {
		const BlockMetadata *block = page->block_metadata[i];

		printf("%" PRIu64 " %" PRIu64 "\n", block->byte_offset, block->size_bytes);
		stream->position = block->byte_offset + block->size_bytes;
	}
}

static size_t on_messages(char *data, size_t size, size_t n, void *to)
{
	struct stream *stream = to;
	struct bytes *pending = &stream->pending;
	size_t at = 0;

	append(pending, data, size * n);
	while (pending->n - at >= GRPC_HEAD) {
		const uint8_t *head = (const uint8_t *)pending->data + at;
		size_t length = (size_t)head[1] << 24 | (size_t)head[2] << 16 |
				(size_t)head[3] << 8 | head[4];
		GetDeltaResponse *page;

		if (head[0] != 0 || length > GRPC_MESSAGE_MAX)
			return 0;
		if (pending->n - at - GRPC_HEAD < length)
			break;
		page = get_delta_response__unpack(NULL, length, head + GRPC_HEAD);
		if (!page)
			return 0;
		print_blocks(stream, page);
		get_delta_response__free_unpacked(page, NULL);
		at += GRPC_HEAD + length;
	}
	memmove(pending->data, pending->data + at, pending->n - at);
	pending->n -= at;
	return size * n;
}

static size_t on_field(char *data, size_t size, size_t n, void *to)
{
	struct stream *stream = to;

	n *= size;
	if (n > 12 && strncasecmp(data, "grpc-status:", 12) == 0)
		stream->status = (int)strtol(data + 12, NULL, 10);
	if (n > 13 && strncasecmp(data, "grpc-message:", 13) == 0)
		snprintf(stream->message, sizeof(stream->message), "%.*s", (int)(n - 13),
			 data + 13);
	return n;
}

static struct bytes pack(const GetDeltaRequest *request)
{
	size_t length = get_delta_request__get_packed_size(request);
	struct bytes made = {malloc(GRPC_HEAD + length), GRPC_HEAD + length};

	if (!made.data)
		die("memory", "out of memory");
	for (unsigned i = 0; i < GRPC_HEAD; i++)
		made.data[i] = i == 0 ? 0 : (char)(length >> (8 * (4 - i)) & 0xff);
	get_delta_request__pack(request, (uint8_t *)made.data + GRPC_HEAD);
	return made;
}

/* Returns the status of the stream; one that broke is UNAVAILABLE. */
static int list_blocks(const char *address, struct curl_blob *authority, GetDeltaRequest *request,
		       struct stream *stream)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/grpc");
	struct bytes body = pack(request);
	CURL *curl = curl_easy_init();
	char url[1024];
	CURLcode rc;

	headers = curl_slist_append(headers, "TE: trailers");
	headers = curl_slist_append(headers, "Expect:");
	snprintf(url, sizeof(url), "https://%s/SnapshotMetadata/GetDelta", address);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, authority);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body.n);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_messages);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_field);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, stream);
	stream->status = -1;
	stream->pending.n = 0;
	rc = curl_easy_perform(curl);
	if (stream->status < 0) {
		stream->status = GRPC_UNAVAILABLE;
		snprintf(stream->message, sizeof(stream->message), " %s", curl_easy_strerror(rc));
	}
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	free(body.data);
	return stream->status;
}

/* ---- the flow ---- */

/* The bytes of a base64 text; the caller frees them. */
static struct bytes decode(const char *text)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct bytes made = {0};
	unsigned bits = 0, n_bits = 0;

	append(&made, "", 0);
	for (; *text && *text != '='; text++) {
		const char *found = strchr(alphabet, *text);
		char byte;

		if (!found)
			die("the session", "a field is not base64");
		bits = bits << 6 | (unsigned)(found - alphabet);
		n_bits += 6;
		if (n_bits < 8)
			continue;
		n_bits -= 8;
		byte = (char)(bits >> n_bits & 0xff);
		append(&made, &byte, 1);
	}
	return made;
}

/* A stream that breaks goes on behind the last block. */
static int use_session(const json_t *status, char *volume, char *base, char *target)
{
	struct bytes token = decode(json_string_value(json_object_get(status, "sessionToken")));
	struct bytes ca = decode(json_string_value(json_object_get(status, "caCert")));
	const char *address = json_string_value(json_object_get(status, "sessionURL"));
	struct curl_blob authority = {ca.data, ca.n, CURL_BLOB_COPY};
	struct stream stream = {0};
	GetDeltaRequest request;

	get_delta_request__init(&request);
	request.session_token = token.data;
	request.volume_id = volume;
	request.base_snapshot = base;
	request.target_snapshot = target;
	for (int i = 0; i < TRIES; i++) {
		request.starting_byte_offset = stream.position;
		if (list_blocks(address, &authority, &request, &stream) != GRPC_UNAVAILABLE)
			break;
		pause_ms(1000);
	}
	if (stream.status != 0)
		fprintf(stderr, "session-client: status %d:%s\n", stream.status, stream.message);
	free(stream.pending.data);
	free(token.data);
	free(ca.data);
	return stream.status != 0;
}

int main(int argc, char **argv)
{
	json_t *request, *made, *status;
	char path[1024];
	char *volume;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: session-client NAMESPACE BASE TARGET\n");
		return 2;
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	volume = volume_handle(argv[1], argv[3]);
	request = json_pack("{s:s, s:s, s:{s:s}, s:{s:[s,s]}}", "apiVersion",
			    "cbt.storage.k8s.io/v1alpha2", "kind", "SnapshotSessionRequest",
			    "metadata", "generateName", "session-client-", "spec", "snapshots",
			    argv[2], argv[3]);
	snprintf(path, sizeof(path), API "/namespaces/%s/snapshotsessionrequests", argv[1]);
	made = kube("POST", path, request);
	snprintf(path, sizeof(path), API "/namespaces/%s/snapshotsessionrequests/%s", argv[1],
		 json_string_value(json_object_get(json_object_get(made, "metadata"), "name")));
	status = wait_for_session(path);
	rc = use_session(status, volume, argv[2], argv[3]);
	json_decref(kube("DELETE", path, NULL)); /* or it ends by itself, when it expires */
	json_decref(status);
	json_decref(made);
	json_decref(request);
	free(volume);
	curl_global_cleanup();
	return rc;
}
