/* SPDX-License-Identifier: Apache-2.0 */

/* Notes about a volume in its pool, one of each kind: "<kind>/<volume id>". A kind is one
 * file's own. */
#ifndef CAIRN_CSI_VOLUME_NOTE_H
#define CAIRN_CSI_VOLUME_NOTE_H

#include <stddef.h>

struct cairn_err;
struct pool;

/* *ret is the caller's, with a NUL beyond its length, or NULL where there is no such note. */
int csi_volume_note_get(struct pool *pool, const char *kind, const char *volume_id, char **ret,
			size_t *ret_n, struct cairn_err *err);

/* Makes the note. CAIRN_ABORTED when there is one. */
int csi_volume_note_add(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err);

/* Puts the note, whatever it was. */
int csi_volume_note_put(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err);

/* Fine where there is none. */
int csi_volume_note_drop(struct pool *pool, const char *kind, const char *volume_id,
			 struct cairn_err *err);

#endif
