/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/published.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/note.h"
#include "pool/pool.h"

#define PREFIX   "published/"
#define KEY_MAX  (POOL_ID_MAX + 32)
#define NOTE_LEN 3 /* read-only flag, access mode, block flag: a letter each */

static void make_key(const char *volume_id, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, PREFIX "%s", volume_id);
}

int csi_published_get(struct pool *pool, const char *volume_id, struct csi_publication *ret,
		      struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	size_t n;
	int rc;

	*ret = (struct csi_publication){0};
	make_key(volume_id, key);
	rc = pool_note_get(pool, key, &text, &n, err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
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
	char key[KEY_MAX];
	char note[NOTE_LEN] = {publication->read_only ? 'r' : 'w', (char)('0' + publication->mode),
			       publication->block ? 'b' : 'm'};

	make_key(volume_id, key);
	return pool_note_change(pool, key, (struct pool_note){0},
				(struct pool_note){note, sizeof(note)}, err);
}

int csi_published_drop(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	char key[KEY_MAX];

	make_key(volume_id, key);
	return pool_note_put(pool, key, NULL, err);
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
	return pool_note_scan(pool, PREFIX, count_one, ret, err);
}
