/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots that the suite makes in the driver under test.
 *
 * A volume goes the way that Kubernetes would take it: create, attach, stage,
 * publish as a block device, and all of it back. Each object remembers how far
 * it came, so that removing it undoes exactly that, also after a failure half
 * way. A creation whose end is unknown is repeated under its name before the
 * deletion: that is how its id is learnt.
 */
#ifndef CAIRN_CONFORMANCE_VOLUME_H
#define CAIRN_CONFORMANCE_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "conformance/request.h"

struct cairn_err;
struct target;

struct volume {
	char *name;
	char *id; /* NULL: not made, or not known to be */
	uint64_t size;
	char *from_snapshot; /* NULL: it started empty */
	uint64_t wanted;     /* bytes asked for */
	struct request_map context;
	struct request_map publish_context;
	char *dir;          /* ours: holds the two below */
	char *staging_path; /* a directory */
	char *target_path;  /* the device */
	int fd;             /* of the device; -1 while it is not published */
	bool tried, attached, staged, published;
};

/* Makes it and learns its id and size. `dir` is where its paths will be. */
int volume_create(struct target *t, struct volume *v, const char *dir, struct cairn_err *err);

/* Attaches, stages, publishes and opens it for reading and writing. */
int volume_publish(struct target *t, struct volume *v, struct cairn_err *err);
int volume_unpublish(struct target *t, struct volume *v, struct cairn_err *err);

/* Grows it, controller and node, while it is published. */
int volume_expand(struct target *t, struct volume *v, uint64_t size, struct cairn_err *err);

/* DeleteVolume alone; the object remains for volume_remove(). */
int volume_delete(struct target *t, struct volume *v, struct cairn_err *err);

/* Undoes everything that was done, going on after errors; returns the first. */
int volume_remove(struct target *t, struct volume *v, struct cairn_err *err);
void volume_free(struct volume *v);

struct snapshot {
	char *name;
	char *volume_id;
	char *id; /* NULL: not made, or not known to be, or deleted */
	uint64_t size;
	bool tried;
};

/* Cuts a snapshot and waits until it is ready to use. */
int snapshot_create(struct target *t, struct snapshot *s, struct cairn_err *err);
int snapshot_remove(struct target *t, struct snapshot *s, struct cairn_err *err);
void snapshot_free(struct snapshot *s);

#endif
