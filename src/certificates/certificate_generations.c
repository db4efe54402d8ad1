/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_keeper.h"

#include <string.h>

#include "base/err.h"

int certificates_generations_parse(const char *list, unsigned *ret, struct cairn_err *err)
{
	static const struct {
		const char *name;
		unsigned value;
	} names[] = {
		{"snapshot-metadata", CERTIFICATES_SNAPSHOT_METADATA},
		{"sessions", CERTIFICATES_SESSIONS},
		{"diffsnap", CERTIFICATES_DIFFSNAP},
		{"volumesnapshotdelta", CERTIFICATES_VOLUMESNAPSHOTDELTA},
		{"all", CERTIFICATES_SNAPSHOT_METADATA | CERTIFICATES_SESSIONS |
				CERTIFICATES_DIFFSNAP | CERTIFICATES_VOLUMESNAPSHOTDELTA},
	};
	unsigned chosen = 0;

	for (const char *at = list;; at++) {
		size_t n = strcspn(at, ","), i;

		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strlen(names[i].name) == n && memcmp(names[i].name, at, n) == 0)
				break;
		if (i == sizeof(names) / sizeof(names[0]))
			return cairn_err_set(err, CAIRN_INVALID, "unknown generation '%.*s'",
					     (int)n, at);
		chosen |= names[i].value;
		at += n;
		if (!*at)
			break;
	}
	*ret = chosen;
	return 0;
}
