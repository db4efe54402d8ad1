/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/volume_note.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "pool/catalogue/front_end_note.h"
#include "pool/pool.h"

#define KEY_MAX (POOL_ID_MAX + 32)

static void volume_note_make_key(const char *kind, const char *volume_id, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "%s/%s", kind, volume_id);
}

int csi_volume_note_get(struct pool *pool, const char *kind, const char *volume_id, char **ret,
			size_t *ret_n, struct cairn_err *err)
{
	char key[KEY_MAX];
	int rc;

	*ret = NULL;
	*ret_n = 0;
	volume_note_make_key(kind, volume_id, key);
	rc = pool_note_get(pool, key, ret, ret_n, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int csi_volume_note_add(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err)
{
	char key[KEY_MAX];

	volume_note_make_key(kind, volume_id, key);
	return pool_note_change(pool, key, (struct pool_note){0},
				(struct pool_note){text, strlen(text)}, err);
}

int csi_volume_note_put(struct pool *pool, const char *kind, const char *volume_id,
			const char *text, struct cairn_err *err)
{
	char key[KEY_MAX];

	volume_note_make_key(kind, volume_id, key);
	return pool_note_put(pool, key, text, err);
}

int csi_volume_note_drop(struct pool *pool, const char *kind, const char *volume_id,
			 struct cairn_err *err)
{
	return csi_volume_note_put(pool, kind, volume_id, NULL, err);
}
