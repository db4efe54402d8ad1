/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "csi/volume_note.h"

#define KIND      "volume"
#define VALUE_MAX (POOL_ID_MAX + 64)

/* "<checksum in decimal> <source>" */
int csi_attributes_get(struct pool *pool, const char *volume_id, struct csi_attributes *ret,
		       struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char *space;
	size_t n;
	int rc = csi_volume_note_get(pool, KIND, volume_id, &text, &n, err);

	*ret = (struct csi_attributes){0};
	if (rc || !text)
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
	char value[VALUE_MAX];

	snprintf(value, sizeof(value), "%" PRIu64 " %s", attributes->parameters,
		 attributes->source);
	return csi_volume_note_put(pool, KIND, volume_id, value, err);
}

int csi_attributes_drop(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	return csi_volume_note_drop(pool, KIND, volume_id, err);
}
