/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/published.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "csi/volume_note.h"
#include "pool/catalogue/front_end_note.h"

#define KIND     "published"
#define NOTE_LEN 3 /* read-only flag, access mode, block flag: a letter each */

int csi_published_get(struct pool *pool, const char *volume_id, struct csi_publication *ret,
		      struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = csi_volume_note_get(pool, KIND, volume_id, &text, &n, err);

	*ret = (struct csi_publication){0};
	if (rc || !text)
		return rc;
	if (n != NOTE_LEN)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the note of volume '%s' is damaged",
				     volume_id);
	*ret = (struct csi_publication){
		.published = true,
		.read_only = text[0] == 'r',
		.mode = text[1] - '0',
		.block = text[2] == 'b',
	};
	return 0;
}

int csi_published_put(struct pool *pool, const char *volume_id,
		      const struct csi_publication *publication, struct cairn_err *err)
{
	char note[NOTE_LEN + 1] = {publication->read_only ? 'r' : 'w',
				   (char)('0' + publication->mode), publication->block ? 'b' : 'm'};

	return csi_volume_note_add(pool, KIND, volume_id, note, err);
}

int csi_published_drop(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	return csi_volume_note_drop(pool, KIND, volume_id, err);
}

static int count_one(void *arg, const char *key, struct pool_note value, struct cairn_err *err)
{
	(void)key;
	(void)value;
	(void)err;
	++*(uint64_t *)arg;
	return 0;
}

int csi_published_count(struct pool *pool, uint64_t *ret, struct cairn_err *err)
{
	*ret = 0;
	return pool_note_scan(pool, KIND "/", count_one, ret, err);
}
