/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots that the suite creates in the driver under test.
 *
 * A volume goes through the same calls as in Kubernetes: create, attach, stage, publish as
 * a block device, and the reverse. Each object records the completed steps, so that
 * removing it undoes exactly those, also after a failure. If the result of a creation is
 * unknown, it is repeated under the same name before the deletion, to learn its id.
 */
#ifndef CAIRN_CONFORMANCE_VOLUME_H
#define CAIRN_CONFORMANCE_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "conformance/csi_request.h"

struct cairn_err;
struct target;

struct volume {
	char *name;
	char *id; /* NULL: not created, or creation uncertain */
	uint64_t size;
	char *from_snapshot; /* NULL: it started empty */
	uint64_t wanted;     /* requested bytes */
	struct request_map context;
	struct request_map publish_context;
	char *dir;          /* owned: contains the two below */
	char *staging_path; /* a directory */
	char *target_path;  /* the device */
	int fd;             /* of the device; -1 while it is not published */
	bool tried, attached, staged, published;
};

/* Creates it and stores its id and size. `dir` is the parent of its paths. */
int conformance_volume_create(struct target *t, struct volume *v, const char *dir,
			      struct cairn_err *err);

/* Attaches, stages, publishes and opens it for reading and writing. */
int conformance_volume_publish(struct target *t, struct volume *v, struct cairn_err *err);
int conformance_volume_unpublish(struct target *t, struct volume *v, struct cairn_err *err);

/* Grows it, on controller and node, while it is published. */
int conformance_volume_expand(struct target *t, struct volume *v, uint64_t size,
			      struct cairn_err *err);

/* DeleteVolume alone; the object remains for conformance_volume_remove(). */
int conformance_volume_delete(struct target *t, struct volume *v, struct cairn_err *err);

/* Undoes all completed steps and continues after errors; returns the first one. */
int conformance_volume_remove(struct target *t, struct volume *v, struct cairn_err *err);
void conformance_volume_free(struct volume *v);

struct snapshot {
	char *name;
	char *volume_id;
	char *id; /* NULL: not created, deleted, or creation uncertain */
	uint64_t size;
	bool tried;
};

/* Cuts a snapshot and waits until it is ready to use. */
int conformance_snapshot_create(struct target *t, struct snapshot *s, struct cairn_err *err);
int conformance_snapshot_remove(struct target *t, struct snapshot *s, struct cairn_err *err);
void conformance_snapshot_free(struct snapshot *s);

#endif
