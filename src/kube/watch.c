/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/client_impl.h"
#include "kube/deadline.h"
#include "kube/kube_status.h"
#include "kube/transport.h"

#define PATH_MAX_BYTES 16384

/* Timeout range of a watch; a random value prevents watches that began together from
 * ending together. */
#define TIMEOUT_MIN_S 300
#define TIMEOUT_MAX_S 600

/* A watch that outlives its timeout by this is on a dead connection. */
#define TIMEOUT_SLACK_S 60

struct kube_watch {
	struct kube_exchange *exchange;
	struct cairn_buf path;
	struct kube_deadline patience;
	struct kube_watch_decoder decoder;
	struct cairn_buf piece; /* the last piece received */
	size_t piece_at;        /* bytes of it that the decoder has */
	uint64_t dead_at_ns;
};

static uint64_t default_timeout(void)
{
	uint32_t chance = 0;

	if (cairn_random_bytes(&chance, sizeof(chance), NULL) < 0)
		return TIMEOUT_MIN_S;
	return TIMEOUT_MIN_S + chance % (TIMEOUT_MAX_S - TIMEOUT_MIN_S + 1);
}

/* One object is watched by a field selector with its name. */
static int add_selector(struct cairn_buf *path, const char *name, const char *selector,
			struct cairn_err *err)
{
	cairn_auto_free char *both = NULL;

	if (!name) {
		kube_query_add(path, "fieldSelector", selector);
		return 0;
	}
	both = cairn_printf("metadata.name=%s%s%s", name, selector ? "," : "",
			    selector ? selector : "");
	if (!both)
		return cairn_err_nomem(err, "selector");
	kube_query_add(path, "fieldSelector", both);
	return 0;
}

static int watch_path(const struct kube_ref *ref, const struct kube_watch_options *options,
		      uint64_t timeout_s, struct cairn_buf *path, struct cairn_err *err)
{
	struct kube_ref all = *ref;
	char seconds[24];
	int rc;

	all.name = NULL;
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)timeout_s);
	rc = kube_ref_path(&all, path, err);
	if (rc)
		return rc;
	kube_query_add(path, "watch", "true");
	kube_query_add(path, "timeoutSeconds", seconds);
	kube_query_add(path, "resourceVersion", options->resource_version);
	kube_query_add(path, "labelSelector", options->label_selector);
	rc = add_selector(path, ref->name, options->field_selector, err);
	if (rc)
		return rc;
	if (options->bookmarks)
		kube_query_add(path, "allowWatchBookmarks", "true");
	cairn_buf_addc(path, '\0');
	return cairn_buf_failed(path) ? cairn_err_nomem(err, "path") : 0;
}

int kube_watch_open(struct kube_client *client, const struct kube_ref *ref,
		    const struct kube_watch_options *options, const struct kube_call *how,
		    struct kube_watch **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_watch_freep) struct kube_watch *watch = cairn_calloc(1, sizeof(*watch));
	struct kube_request request = {
		.method = "GET",
		.answer_max = KUBE_WATCH_BUFFER_MAX,
		.stream = true,
	};
	uint64_t timeout_s = options->timeout_s ? options->timeout_s : default_timeout();
	int rc;

	if (!watch)
		return cairn_err_nomem(err, "watch");
	cairn_buf_init(&watch->path, PATH_MAX_BYTES);
	cairn_buf_init(&watch->piece, KUBE_WATCH_BUFFER_MAX);
	kube_watch_decoder_init(&watch->decoder, 0);
	rc = watch_path(ref, options, timeout_s, &watch->path, err);
	if (rc)
		return rc;
	request.path = (const char *)watch->path.data;
	watch->dead_at_ns = cairn_monotonic_ns() + (timeout_s + TIMEOUT_SLACK_S) * CAIRN_NS_PER_SEC;
	rc = kube_execute(client, &request, how, &watch->exchange, err);
	if (rc)
		return rc;
	watch->patience = kube_deadline_of(how, UINT64_MAX, &client->shutdown);
	watch->patience.deadline_ns = UINT64_MAX;
	if (options->open_only)
		watch->patience.check = NULL;
	*ret = cairn_take(watch);
	return 0;
}

/* Passes the next piece to the decoder. Returns 1 if there was one, 0 at the end. */
static int watch_feed(struct kube_watch *watch, uint64_t until_ns, struct cairn_err *err)
{
	size_t n;
	int rc = 1;

	if (watch->piece_at == watch->piece.len) {
		uint64_t until = until_ns < watch->dead_at_ns ? until_ns : watch->dead_at_ns;

		cairn_buf_reset(&watch->piece);
		watch->piece_at = 0;
		rc = kube_exchange_read(watch->exchange, &watch->patience, until, &watch->piece,
					err);
		if (rc == CAIRN_DEADLINE && cairn_monotonic_ns() >= watch->dead_at_ns)
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the watch did not end when it should");
		if (rc <= 0)
			return rc;
	}
	n = watch->piece.len - watch->piece_at;
	if (n > KUBE_WATCH_PIECE_MAX)
		n = KUBE_WATCH_PIECE_MAX;
	rc = kube_watch_decoder_push(&watch->decoder, watch->piece.data + watch->piece_at, n, err);
	watch->piece_at += n;
	return rc ? rc : 1;
}

/* Converts the server's final error event to an error. */
static int last_words(struct kube_watch_event *event, struct cairn_err *err)
{
	int rc = kube_status_fail(event->object, 0, NULL, err);

	kube_watch_event_done(event);
	return rc;
}

int kube_watch_next(struct kube_watch *watch, uint64_t wait_ms, struct kube_watch_event *ret,
		    struct cairn_err *err)
{
	struct kube_call how = {.timeout_ms = wait_ms ? wait_ms : 1};
	uint64_t until_ns = kube_deadline_of(&how, 0, NULL).deadline_ns;

	for (;;) {
		struct kube_watch_event event = {.object = NULL};
		int rc = kube_watch_decoder_next(&watch->decoder, &event, err);

		if (rc == 1 && event.type == KUBE_ERROR)
			return last_words(&event, err);
		if (rc == 1)
			*ret = event;
		if (rc)
			return rc;
		rc = watch_feed(watch, until_ns, err);
		if (rc == 0 && !kube_watch_decoder_is_empty(&watch->decoder))
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the watch was cut off in an event");
		if (rc <= 0)
			return rc;
	}
}

void kube_watch_stop(struct kube_watch *watch)
{
	kube_exchange_cancel(watch->exchange);
}

void kube_watch_free(struct kube_watch *watch)
{
	if (!watch)
		return;
	kube_exchange_free(watch->exchange);
	kube_watch_decoder_done(&watch->decoder);
	cairn_buf_done(&watch->piece);
	cairn_buf_done(&watch->path);
	free(watch);
}
