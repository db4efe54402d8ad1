/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/staging.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/note.h"
#include "pool/pool.h"

#define KEY_MAX (POOL_ID_MAX + 32)

static void make_key(const char *volume_id, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "staging/%s", volume_id);
}

int csi_staging_begin(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	char key[KEY_MAX];

	make_key(volume_id, key);
	return pool_note_put(pool, key, "1", err);
}

int csi_staging_is_open(struct pool *pool, const char *volume_id, bool *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	size_t n;
	int rc;

	make_key(volume_id, key);
	rc = pool_note_get(pool, key, &text, &n, err);
	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int csi_staging_end(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	char key[KEY_MAX];
	bool open;
	int rc = csi_staging_is_open(pool, volume_id, &open, err);

	if (rc || !open)
		return rc;
	make_key(volume_id, key);
	return pool_note_put(pool, key, NULL, err);
}
