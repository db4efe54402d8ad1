/* SPDX-License-Identifier: Apache-2.0 */

/* JSON as Go writes it, and cleanup of jansson's values. */
#ifndef CAIRN_REPO_JSON_H
#define CAIRN_REPO_JSON_H

#include <jansson.h>

struct cairn_buf;

/* A string with its quotes, escaped as Go's encoder does (also & < >, U+2028,
 * U+2029); bytes that are not UTF-8 become U+FFFD. */
void repo_json_string(struct cairn_buf *out, const char *text);

static inline void repo_json_freep(json_t **value)
{
	json_decref(*value);
}

#endif
