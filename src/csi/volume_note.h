/* SPDX-License-Identifier: Apache-2.0 */

/* Notes about a volume in its pool, one of each kind: "<kind>/<volume id>". Each kind is
 * used by one file only. */
#ifndef CAIRN_CSI_VOLUME_NOTE_H
#define CAIRN_CSI_VOLUME_NOTE_H

#include <stddef.h>

struct cairn_err;
struct pool;

/* *ret is owned by the caller, with a NUL after its length, or NULL if there is no such
 * note. */
int csi_volume_note_get(struct pool *pool, const char *kind, const char *volume_id, char **ret,
			size_t *ret_n, struct cairn_err *err);

/* Creates the note. CAIRN_ABORTED if it exists. */
int csi_volume_note_add(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err);

/* Creates or replaces the note. */
int csi_volume_note_put(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err);

/* A missing note is not an error. */
int csi_volume_note_drop(struct pool *pool, const char *kind, const char *volume_id,
			 struct cairn_err *err);

#endif
