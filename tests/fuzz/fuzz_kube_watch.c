/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes as the body of a watch: the events are the same however the bytes
 * are cut into pieces, and what is left over is what has no end of a line. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kube/global_init.h"
#include "kube/object.h"
#include "kube/watch_decoder.h"

#define LINE_MAX_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	size_t events;
	size_t bytes; /* of the objects' names and versions */
	int end;
};

static struct outcome run(const uint8_t *data, size_t size, size_t piece)
{
	struct kube_watch_decoder decoder;
	struct outcome outcome = {0};

	kube_watch_decoder_init(&decoder, LINE_MAX_BYTES);
	for (size_t at = 0; at < size && outcome.end == 0; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		struct kube_watch_event event;
		int rc;

		if (kube_watch_decoder_push(&decoder, data + at, n, NULL) < 0)
			abort();
		while ((rc = kube_watch_decoder_next(&decoder, &event, NULL)) == 1) {
			if (!json_is_object(event.object) ||
			    !kube_watch_event_type_name(event.type))
				abort();
			outcome.events++;
			outcome.bytes += strlen(kube_name(event.object)) +
					 strlen(kube_resource_version(event.object));
			kube_watch_event_done(&event);
		}
		outcome.end = rc;
	}
	if (outcome.end == 0 && size > 0 &&
	    kube_watch_decoder_is_empty(&decoder) != (data[size - 1] == '\n'))
		abort();
	kube_watch_decoder_done(&decoder);
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, pieces;

	kube_global_init();
	if (size > KUBE_WATCH_PIECE_MAX)
		return 0;
	whole = run(data, size, size ? size : 1);
	pieces = run(data, size, 7);
	/* The limit may be met before the end of a line that is over it. */
	if (whole.events != pieces.events || whole.bytes != pieces.bytes ||
	    (whole.end == 0) != (pieces.end == 0))
		abort();
	return 0;
}
