/* SPDX-License-Identifier: Apache-2.0 */

/* YAML as kubeconfig files use it, to a JSON tree.
 *
 * Plain null, true and false become themselves; every other scalar stays the
 * text it is, so a token of digits is no number. Aliases are followed. */
#ifndef CAIRN_KUBE_YAML_H
#define CAIRN_KUBE_YAML_H

#include <jansson.h>
#include <stddef.h>

struct cairn_err;

#define KUBE_YAML_DEPTH_MAX 32     /* deep nesting, aliases to themselves */
#define KUBE_YAML_NODES_MAX 200000 /* aliases that multiply */

/* The first document of the text; null when it is empty.
 *
 * CAIRN_INVALID   no YAML, over a limit, or a key that is no text
 * CAIRN_NO_SPACE  out of memory
 */
int kube_yaml_parse(const char *text, size_t n, json_t **ret, struct cairn_err *err);

#endif
