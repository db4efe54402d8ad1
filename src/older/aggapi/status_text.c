/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/status_text.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define PATTERN_MAX 128

struct replacement {
	char from[PATTERN_MAX], to[PATTERN_MAX];
};

static const char *version_part(const char *version)
{
	const char *slash = strrchr(version, '/');

	return slash ? slash + 1 : version;
}

void aggapi_status_text(const char *text, size_t n, const char *from, const char *to,
			struct cairn_buf *out)
{
	struct replacement all[2];
	size_t sent = 0, i = 0;

	snprintf(all[0].from, PATTERN_MAX, "%s", from);
	snprintf(all[0].to, PATTERN_MAX, "%s", to);
	/* In a JSON string the quotes are escaped. */
	snprintf(all[1].from, PATTERN_MAX, "in version \\\"%s\\\"", version_part(from));
	snprintf(all[1].to, PATTERN_MAX, "in version \\\"%s\\\"", version_part(to));
	while (i < n) {
		const struct replacement *found = NULL;

		for (size_t k = 0; k < 2 && !found; k++)
			if (n - i >= strlen(all[k].from) &&
			    memcmp(text + i, all[k].from, strlen(all[k].from)) == 0)
				found = &all[k];
		if (!found) {
			i++;
			continue;
		}
		cairn_buf_add(out, text + sent, i - sent);
		cairn_buf_adds(out, found->to);
		i += strlen(found->from);
		sent = i;
	}
	cairn_buf_add(out, text + sent, n - sent);
}
