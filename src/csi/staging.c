/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/staging.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "csi/volume_note.h"

#define KIND "staging"

int csi_staging_begin(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	return csi_volume_note_put(pool, KIND, volume_id, "1", err);
}

int csi_staging_is_open(struct pool *pool, const char *volume_id, bool *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = csi_volume_note_get(pool, KIND, volume_id, &text, &n, err);

	*ret = text != NULL;
	return rc;
}

int csi_staging_end(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	bool open;
	int rc = csi_staging_is_open(pool, volume_id, &open, err);

	return rc || !open ? rc : csi_volume_note_drop(pool, KIND, volume_id, err);
}
