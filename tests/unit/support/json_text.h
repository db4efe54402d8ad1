/* SPDX-License-Identifier: Apache-2.0 */

/* JSON in the source of a test, with ' for ". */
#ifndef CAIRN_TESTS_UNIT_JSON_TEXT_H
#define CAIRN_TESTS_UNIT_JSON_TEXT_H

#include <jansson.h>
#include <string.h>

#include "cairntest.h"

static inline json_t *json_text(const char *text)
{
	char *copy = strdup(text);
	json_t *made;

	assert_non_null(copy);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	made = json_loads(copy, 0, NULL);
	if (!made)
		fail_msg("no JSON: %s", copy);
	free(copy);
	return made;
}

#endif
