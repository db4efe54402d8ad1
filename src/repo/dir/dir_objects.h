/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory: objects under arbitrary keys below a directory, for
 * repo/repo_objects.h. Keys have been checked. */
#ifndef CAIRN_REPO_DIR_DIR_OBJECTS_H
#define CAIRN_REPO_DIR_DIR_OBJECTS_H

#include "repo/repo_objects.h"

int dir_object_get_at(const char *root, const char *key, size_t max, uint8_t **ret_data,
		      size_t *ret_n, struct cairn_err *err);
int dir_object_put_at(const char *root, const char *key, const void *data, size_t n,
		      struct cairn_err *err);
int dir_object_remove_at(const char *root, const char *key, struct cairn_err *err);
int dir_object_list_at(const char *root, const char *prefix, repo_object_fn *fn, void *arg,
		       struct cairn_err *err);

#endif
