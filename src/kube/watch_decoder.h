/* SPDX-License-Identifier: Apache-2.0 */

/* The body of a watch, bytes in and events out.
 *
 * A watch answers with one JSON object after the other, each on a line:
 * {"type":"ADDED","object":{…}}. The decoder takes the bytes in pieces of any
 * size and looks at each once. It has no descriptor, no clock and no thread.
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
	KUBE_BOOKMARK, /* nothing happened up to the object's resource version */
	KUBE_ERROR,    /* the object is a Status; the watch is over */
};

struct kube_watch_event {
	enum kube_watch_event_type type;
	json_t *object; /* owned by whoever got the event */
};

void kube_watch_event_done(struct kube_watch_event *event);

struct kube_watch_decoder {
	struct cairn_buf buf;
	size_t at;       /* where the next line begins */
	size_t searched; /* no end of a line before this */
	size_t line_max;
	bool failed;
};

/* `line_max` bounds one event, and with it the memory; 0 is KUBE_OBJECT_MAX. */
void kube_watch_decoder_init(struct kube_watch_decoder *decoder, size_t line_max);
void kube_watch_decoder_done(struct kube_watch_decoder *decoder);

/* What is pushed at once. */
#define KUBE_WATCH_PIECE_MAX (1U << 20)

/* Adds at most KUBE_WATCH_PIECE_MAX bytes. All events are to be taken out before
 * the next piece comes.
 *
 * CAIRN_NO_SPACE  out of memory, or more is waiting than may be
 */
int kube_watch_decoder_push(struct kube_watch_decoder *decoder, const void *data, size_t n,
			    struct cairn_err *err);

/* Returns 1 and the next event, 0 when more bytes are needed, or a code, after
 * which there is nothing more to be had:
 *
 * CAIRN_INTERNAL  a line is no event of a watch
 * CAIRN_NO_SPACE  an event is longer than `line_max`, or out of memory
 */
int kube_watch_decoder_next(struct kube_watch_decoder *decoder, struct kube_watch_event *ret,
			    struct cairn_err *err);

/* True when no part of an event is left over: where a body ends then, nothing
 * was cut off. */
bool kube_watch_decoder_is_empty(const struct kube_watch_decoder *decoder);

const char *kube_watch_event_type_name(enum kube_watch_event_type type);

#endif
