/* SPDX-License-Identifier: Apache-2.0 */

/* Parser for the YAML of kubeconfig files, with a JSON tree as the result.
 *
 * Plain null, true and false become JSON values; every other scalar becomes a string, so
 * that a token of digits is not a number. Aliases are followed. */
#ifndef CAIRN_KUBE_YAML_H
#define CAIRN_KUBE_YAML_H

#include <jansson.h>
#include <stddef.h>

struct cairn_err;

#define KUBE_YAML_DEPTH_MAX 32     /* against deep nesting and self-referencing aliases */
#define KUBE_YAML_NODES_MAX 200000 /* against aliases that multiply */

/* Parses the first document of the text; null if it is empty.
 *
 * CAIRN_INVALID   not YAML, over a limit, or a key that is not a string
 * CAIRN_NO_SPACE  out of memory
 */
int kube_yaml_parse(const char *text, size_t n, json_t **ret, struct cairn_err *err);

#endif
