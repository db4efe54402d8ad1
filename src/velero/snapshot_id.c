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
	char moved[VELERO_MOVED_TEXT_MAX + 1] = "";
	int n;

	if (!id->driver[0] || strchr(id->driver, '_') || !id->handle || !id->handle[0])
		return cairn_err_set(err, CAIRN_INVALID, "no driver or no handle for a snapshot");
	if (id->moved.ns[0]) {
		moved[0] = ',';
		velero_moved_format(&id->moved, moved + 1);
	}
	n = snprintf(out, VELERO_SNAPSHOT_ID_MAX, "%s_%" PRIu64 "_%c%s_%s", id->driver, id->bytes,
		     id->block ? 'B' : 'F', moved, id->handle);
	if (n < 0 || n >= VELERO_SNAPSHOT_ID_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the handle of the snapshot is too long");
	return 0;
}

/* MODE, and where the copy is. */
static int parse_mode(const char *mode, size_t n, struct velero_snapshot_id *ret,
		      struct cairn_err *err)
{
	char moved[VELERO_MOVED_TEXT_MAX];

	ret->block = mode[0] == 'B';
	ret->moved = (struct velero_moved){0};
	if (n == 1)
		return 0;
	if (mode[1] != ',' || n - 2 >= sizeof(moved))
		return cairn_err_set(err, CAIRN_INVALID, "'%.20s' is not a volume's mode", mode);
	memcpy(moved, mode + 2, n - 2);
	moved[n - 2] = 0;
	return velero_moved_parse(moved, &ret->moved, err);
}

int velero_snapshot_id_parse(const char *text, struct velero_snapshot_id *ret,
			     struct cairn_err *err)
{
	size_t driver = strcspn(text, "_");
	const char *bytes = text + driver + (text[driver] ? 1 : 0);
	size_t digits = strcspn(bytes, "_");
	const char *mode = bytes + digits + (bytes[digits] ? 1 : 0);
	size_t n = strcspn(mode, "_");
	char number[DIGITS_MAX + 1];

	if (driver == 0 || driver >= sizeof(ret->driver) || digits == 0 || digits > DIGITS_MAX ||
	    (mode[0] != 'B' && mode[0] != 'F') || !mode[n] || !mode[n + 1] ||
	    strlen(text) >= VELERO_SNAPSHOT_ID_MAX || parse_mode(mode, n, ret, err) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "'%.80s' is not the id of a snapshot",
				     text);
	memcpy(number, bytes, digits);
	number[digits] = 0;
	memcpy(ret->driver, text, driver);
	ret->driver[driver] = 0;
	ret->handle = mode + n + 1;
	return cairn_parse_u64(number, &ret->bytes, err) < 0
		       ? cairn_err_wrap(err, "the id of a snapshot")
		       : 0;
}
