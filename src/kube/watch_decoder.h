/* SPDX-License-Identifier: Apache-2.0 */

/* Decoder for the body of a watch: bytes in, events out.
 *
 * A watch answers with a sequence of JSON objects, one per line:
 * {"type":"ADDED","object":{…}}. The decoder takes the bytes in pieces of any size and
 * scans each byte once. It has no descriptor, no clock and no thread.
 */
#ifndef CAIRN_KUBE_WATCH_DECODER_H
#define CAIRN_KUBE_WATCH_DECODER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct cairn_err;

enum kube_watch_event_type {
	KUBE_ADDED,
	KUBE_MODIFIED,
	KUBE_DELETED,
	KUBE_BOOKMARK, /* no change up to the object's resource version */
	KUBE_ERROR,    /* the object is a Status; the watch has ended */
};

struct kube_watch_event {
	enum kube_watch_event_type type;
	json_t *object; /* owned by the receiver of the event */
};

void kube_watch_event_done(struct kube_watch_event *event);

struct kube_watch_decoder {
	struct cairn_buf buf;
	size_t at;       /* where the next line begins */
	size_t searched; /* no end of line before this */
	size_t line_max;
	bool failed;
};

/* `line_max` bounds one event, and with it the memory; 0 is KUBE_OBJECT_MAX. */
void kube_watch_decoder_init(struct kube_watch_decoder *decoder, size_t line_max);
void kube_watch_decoder_done(struct kube_watch_decoder *decoder);

/* Limit of one call to kube_watch_decoder_push(). */
#define KUBE_WATCH_PIECE_MAX (1U << 20)

/* Adds at most KUBE_WATCH_PIECE_MAX bytes. The caller must take all events before it
 * pushes the next piece.
 *
 * CAIRN_NO_SPACE  out of memory, or too much unread data
 */
int kube_watch_decoder_push(struct kube_watch_decoder *decoder, const void *data, size_t n,
			    struct cairn_err *err);

/* Returns 1 and the next event, 0 if more bytes are needed, or an error code, after which
 * the decoder returns no more events:
 *
 * CAIRN_INTERNAL  a line is not a watch event
 * CAIRN_NO_SPACE  an event is longer than `line_max`, or out of memory
 */
int kube_watch_decoder_next(struct kube_watch_decoder *decoder, struct kube_watch_event *ret,
			    struct cairn_err *err);

/* True if no partial event is buffered: then the end of the body cut nothing off. */
bool kube_watch_decoder_is_empty(const struct kube_watch_decoder *decoder);

const char *kube_watch_event_type_name(enum kube_watch_event_type type);

#endif
