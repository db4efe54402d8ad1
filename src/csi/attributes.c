/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "pool/note.h"

#define KEY_MAX   (POOL_ID_MAX + 32)
#define VALUE_MAX (POOL_ID_MAX + 64)

static void make_key(const char *volume_id, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "volume/%s", volume_id);
}

/* "<checksum in decimal> <source>" */
int csi_attributes_get(struct pool *pool, const char *volume_id, struct csi_attributes *ret,
		       struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	char *space;
	size_t n;
	int rc;

	*ret = (struct csi_attributes){0};
	make_key(volume_id, key);
	rc = pool_note_get(pool, key, &text, &n, err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return rc;
	space = strchr(text, ' ');
	if (!space || strlen(space + 1) > POOL_ID_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the note of volume '%s' is damaged",
				     volume_id);
	*space = '\0';
	ret->noted = true;
	snprintf(ret->source, sizeof(ret->source), "%s", space + 1);
	return cairn_parse_u64(text, &ret->parameters, err);
}

int csi_attributes_put(struct pool *pool, const char *volume_id,
		       const struct csi_attributes *attributes, struct cairn_err *err)
{
	char key[KEY_MAX];
	char value[VALUE_MAX];

	make_key(volume_id, key);
	snprintf(value, sizeof(value), "%" PRIu64 " %s", attributes->parameters,
		 attributes->source);
	return pool_note_put(pool, key, value, err);
}

int csi_attributes_drop(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	char key[KEY_MAX];

	make_key(volume_id, key);
	return pool_note_put(pool, key, NULL, err);
}
