/* SPDX-License-Identifier: Apache-2.0 */

/* A repository behind restic's REST server. */
#ifndef CAIRN_REPO_REST_REST_H
#define CAIRN_REPO_REST_REST_H

#include <stddef.h>

#include "repo/repo_store.h"

struct cairn_err;

/* `url` is the part after "rest:". */
int repo_rest_open(const struct repo_store_options *options, const char *url,
		   struct repo_store **ret, struct cairn_err *err);

/* A listing, [{"name":…,"size":…},…]: pure. Names that are not ids are left
 * out. */
int repo_rest_parse_list(const char *json, size_t n, repo_store_list_fn *fn, void *arg,
			 struct cairn_err *err);

#endif
