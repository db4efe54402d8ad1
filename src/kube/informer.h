/* SPDX-License-Identifier: Apache-2.0 */

/* A local copy of all objects of a kind, kept up to date by a watch.
 *
 * An informer has a thread that lists, then watches. After any failure it retries with
 * growing pauses: from where the watch broke if the server still has that version, else
 * from a new list, whose differences to the copy are reported as events. The final state
 * of every object is reported; a change that was undone between two lists is not.
 *
 * Any thread may read. Returned objects are references (json_decref) to immutable trees:
 * copy one before changing it.
 *
 * Handlers run on the informer's thread, one after the other, and must be quick: they add
 * a key to a queue (kube/queue.h) for the workers. They may read the informer, but must
 * not stop it.
 */
#ifndef CAIRN_KUBE_INFORMER_H
#define CAIRN_KUBE_INFORMER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_resource.h"

struct cairn_err;
struct kube_client;
struct kube_informer;

/* Limit of objects in one informer. With more, every list attempt fails. */
#define KUBE_INFORMER_OBJECTS_MAX 1000000U

#define KUBE_INFORMER_HANDLERS_MAX 16
#define KUBE_INFORMER_INDEXES_MAX  8

/* Calls `emit` for each text under which an object is to be found. */
typedef void (*kube_index_fn)(const json_t *object, void (*emit)(void *to, const char *text),
			      void *to);

struct kube_index {
	const char *name;
	kube_index_fn texts;
};

struct kube_informer_options {
	const struct kube_resource *resource;
	const char *ns; /* NULL is all */
	const char *label_selector;
	const char *field_selector;

	const struct kube_index
		*indexes; /* terminated by an entry without a name; NULL: no index */

	/* Changes an object before it is stored, to drop fields that are not used. NULL drops
	 * metadata.managedFields. */
	void (*trim)(json_t *object);

	/* Interval at which every object is reported to the handlers again, as an update from
	 * itself; 0 is never. */
	uint64_t resync_ms;
};

/* A `trim` that drops all metadata but name, namespace, uid, version and times: users may store
 * 256 KiB of annotations in each object. */
void kube_informer_trim_metadata(json_t *object);

/* `old` is NULL for a new object, `now` for a deleted one (then `old` is its last known
 * state). Both are borrowed. */
typedef void (*kube_informer_handler)(void *arg, const json_t *old, const json_t *now);

/* Strings are copied; the resource, the indexes and the client are borrowed and must
 * outlive the informer. */
int kube_informer_new(struct kube_client *client, const struct kube_informer_options *options,
		      struct kube_informer **ret, struct cairn_err *err);

/* Stops and frees; waits for a running handler. Accepts NULL. */
void kube_informer_free(struct kube_informer *informer);
CAIRN_DEFINE_CLEANUP(struct kube_informer, kube_informer_free);

/* May be called at any time; a handler that is added late first receives all existing
 * objects. */
int kube_informer_add_handler(struct kube_informer *informer, kube_informer_handler handler,
			      void *arg, struct cairn_err *err);

int kube_informer_start(struct kube_informer *informer, struct cairn_err *err);

/* Ends the thread; the copy can still be read. No handler runs after it returns. Must not
 * be called from a handler. */
void kube_informer_stop(struct kube_informer *informer);

/* True once all objects that existed at the start are in the copy and were reported to the
 * handlers. It stays true. */
bool kube_informer_synced(struct kube_informer *informer);

/* Waits for that, at most `wait_ms` (UINT64_MAX: without limit), and calls `check` (may be
 * NULL) periodically.
 *
 * CAIRN_DEADLINE   not in time; the text has the error of the last attempt
 * CAIRN_CANCELLED  stopped; or the code of `check`
 */
int kube_informer_wait_synced(struct kube_informer *informer, uint64_t wait_ms,
			      int (*check)(void *arg), void *arg, struct cairn_err *err);

/* True while a watch is open that has caught up with the server. While it is false, an
 * object that is not in the copy may still exist: report an error, not its absence. */
bool kube_informer_current(struct kube_informer *informer);

/* Shortens the pause before the next attempt to list or watch to a second, for a caller
 * that misses an object. Any number of calls cause one attempt a second. */
void kube_informer_hurry(struct kube_informer *informer);

/* Returns NULL if there is no such object, else the caller's reference. */
json_t *kube_informer_get(struct kube_informer *informer, const char *ns, const char *name);

/* Returns references to all objects, or to those that an index has under `text`. Release
 * them with kube_objects_free(). */
int kube_informer_list(struct kube_informer *informer, json_t ***ret, size_t *ret_n,
		       struct cairn_err *err);
int kube_informer_find(struct kube_informer *informer, const char *index, const char *text,
		       json_t ***ret, size_t *ret_n, struct cairn_err *err);
void kube_objects_free(json_t **objects, size_t n);

struct kube_informer_stats {
	uint64_t objects;
	uint64_t lists;   /* that succeeded */
	uint64_t watches; /* that were opened */
	uint64_t events;  /* that changed something */
	uint64_t errors;  /* failed lists and watches that broke */
	char last_error[160];
	uint64_t last_contact_ns; /* monotonic, of the last list, event or bookmark */
};

void kube_informer_stats(struct kube_informer *informer, struct kube_informer_stats *ret);

#endif
