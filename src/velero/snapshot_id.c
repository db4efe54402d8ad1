/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/snapshot_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

#define DIGITS_MAX 20

int velero_snapshot_id_format(const struct velero_snapshot_id *id, char out[VELERO_SNAPSHOT_ID_MAX],
			      struct cairn_err *err)
{
	int n;

	if (!id->driver[0] || strchr(id->driver, '_') || !id->handle || !id->handle[0])
		return cairn_err_set(err, CAIRN_INVALID, "no driver or no handle for a snapshot");
	n = snprintf(out, VELERO_SNAPSHOT_ID_MAX, "%s_%" PRIu64 "_%c_%s", id->driver, id->bytes,
		     id->block ? 'B' : 'F', id->handle);
	if (n < 0 || n >= VELERO_SNAPSHOT_ID_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the handle of the snapshot is too long");
	return 0;
}

int velero_snapshot_id_parse(const char *text, struct velero_snapshot_id *ret,
			     struct cairn_err *err)
{
	size_t driver = strcspn(text, "_");
	const char *bytes = text + driver + (text[driver] ? 1 : 0);
	size_t digits = strcspn(bytes, "_");
	const char *mode = bytes + digits + (bytes[digits] ? 1 : 0);
	char number[DIGITS_MAX + 1];

	if (driver == 0 || driver >= sizeof(ret->driver) || digits == 0 || digits > DIGITS_MAX ||
	    (mode[0] != 'B' && mode[0] != 'F') || mode[1] != '_' || !mode[2] ||
	    strlen(text) >= VELERO_SNAPSHOT_ID_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "'%.80s' is not the id of a snapshot",
				     text);
	memcpy(number, bytes, digits);
	number[digits] = 0;
	memcpy(ret->driver, text, driver);
	ret->driver[driver] = 0;
	ret->block = mode[0] == 'B';
	ret->handle = mode + 2;
	return cairn_parse_u64(number, &ret->bytes, err) < 0
		       ? cairn_err_wrap(err, "the id of a snapshot")
		       : 0;
}
