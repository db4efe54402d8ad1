/* SPDX-License-Identifier: Apache-2.0 */

/* Names of nodes: any bytes, quoted as Go's strconv.Quote does, without the outer
 * quotes; the result is then a JSON string. Pure. */
#ifndef CAIRN_REPO_NODE_NAME_H
#define CAIRN_REPO_NODE_NAME_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_buf;

void repo_name_quote(struct cairn_buf *out, const char *name);

/* False when an escape is invalid. */
bool repo_name_unquote(struct cairn_buf *out, const char *text, size_t n);

/* True for a valid name in a tree: not empty, not "." or "..", no '/' and no
 * NUL. */
bool repo_name_valid(const char *name, size_t n);

#endif
