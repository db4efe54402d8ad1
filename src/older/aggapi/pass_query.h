/* SPDX-License-Identifier: Apache-2.0 */

/* The query of a request that is passed on. The API server reads it again: what is
 * authorized here must be what it does there. */
#ifndef CAIRN_AGGAPI_PASS_QUERY_H
#define CAIRN_AGGAPI_PASS_QUERY_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_buf;

/* False if the API server could read the query in another way than this program: a name with
 * an escape, a pair that Go drops (with ';' or a broken escape), or a repeated name that
 * decides on rights. */
bool aggapi_query_plain(const char *query);

/* True if it asks for a watch. As in Kubernetes, every value but "false" and "0" does. */
bool aggapi_query_watch(const char *query);

/* Appends the query of a watch that the API server ends after `max_s` seconds, or earlier if
 * the query says so. False if timeoutSeconds is not a number. */
bool aggapi_query_add_limited(const char *query, uint64_t max_s, struct cairn_buf *out);

#endif
