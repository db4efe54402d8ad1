/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/watch_decoder.h"

#include <string.h>

#include "base/err.h"
#include "kube/object.h"

static const char *const names[] = {
	[KUBE_ADDED] = "ADDED",       [KUBE_MODIFIED] = "MODIFIED", [KUBE_DELETED] = "DELETED",
	[KUBE_BOOKMARK] = "BOOKMARK", [KUBE_ERROR] = "ERROR",
};

const char *kube_watch_event_type_name(enum kube_watch_event_type type)
{
	return names[type];
}

void kube_watch_event_done(struct kube_watch_event *event)
{
	json_decref(event->object);
	event->object = NULL;
}

void kube_watch_decoder_init(struct kube_watch_decoder *decoder, size_t line_max)
{
	memset(decoder, 0, sizeof(*decoder));
	decoder->line_max = line_max ? line_max : KUBE_OBJECT_MAX;
	/* Room for an unfinished event, a piece, and the buffer's growth. */
	cairn_buf_init(&decoder->buf, decoder->line_max + 2 * (size_t)KUBE_WATCH_PIECE_MAX);
}

void kube_watch_decoder_done(struct kube_watch_decoder *decoder)
{
	cairn_buf_done(&decoder->buf);
}

int kube_watch_decoder_push(struct kube_watch_decoder *decoder, const void *data, size_t n,
			    struct cairn_err *err)
{
	cairn_buf_consume(&decoder->buf, decoder->at);
	decoder->searched -= decoder->at;
	decoder->at = 0;
	cairn_buf_add(&decoder->buf, data, n);
	if (!decoder->failed && !cairn_buf_failed(&decoder->buf))
		return 0;
	decoder->failed = true;
	return cairn_err_nomem(err, "watch");
}

/* Decodes one non-empty line. */
static int watch_decoder_decode(const char *line, size_t n, struct kube_watch_event *ret,
				struct cairn_err *err)
{
	kube_auto_json json_t *json = NULL;
	const char *type;
	json_t *object;
	int rc = kube_json_parse(line, n, &json, err);

	if (rc == CAIRN_NO_SPACE)
		return rc;
	type = rc ? NULL : kube_str(json, "type");
	object = rc ? NULL : kube_at(json, "object");
	for (size_t i = 0; type && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(type, names[i]) == 0 && json_is_object(object)) {
			ret->type = (enum kube_watch_event_type)i;
			ret->object = json_incref(object);
			return 1;
		}
	}
	return cairn_err_set(err, CAIRN_INTERNAL, "a line of the watch is not an event");
}

/* Returns the next non-empty line; NULL if it is incomplete. */
static const char *next_line(struct kube_watch_decoder *decoder, size_t *ret_n)
{
	const struct cairn_buf *buf = &decoder->buf;

	while (decoder->searched < buf->len) {
		const uint8_t *from = buf->data + decoder->searched;
		const uint8_t *end = memchr(from, '\n', buf->len - decoder->searched);
		const char *line = (const char *)buf->data + decoder->at;

		if (!end) {
			decoder->searched = buf->len;
			break;
		}
		*ret_n = (size_t)(end - buf->data) - decoder->at;
		decoder->at = decoder->searched = (size_t)(end - buf->data) + 1;
		if (*ret_n > 0 && line[*ret_n - 1] == '\r')
			--*ret_n;
		if (*ret_n > 0)
			return line;
	}
	return NULL;
}

int kube_watch_decoder_next(struct kube_watch_decoder *decoder, struct kube_watch_event *ret,
			    struct cairn_err *err)
{
	const char *line;
	size_t n = 0;
	int rc = 0;

	if (decoder->failed)
		return cairn_err_set(err, CAIRN_INTERNAL, "the watch has failed before");
	line = next_line(decoder, &n);
	if (!line)
		n = decoder->buf.len - decoder->at;
	if (n > decoder->line_max)
		rc = cairn_err_set(err, CAIRN_NO_SPACE,
				   "an event of the watch is larger than %zu bytes",
				   decoder->line_max);
	else if (line)
		rc = watch_decoder_decode(line, n, ret, err);
	decoder->failed = rc < 0;
	return rc;
}

bool kube_watch_decoder_is_empty(const struct kube_watch_decoder *decoder)
{
	return !decoder->failed && decoder->at == decoder->buf.len;
}
