/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory: the store itself. */
#ifndef CAIRN_REPO_DIR_DIR_IMPL_H
#define CAIRN_REPO_DIR_DIR_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "repo/repo_store.h"

#define DIR_PATH_TEXT 128 /* of a name below the directory */

struct dir {
	struct repo_store store;
	char *path;
	struct repo_limits *limits;   /* or NULL */
	bool (*cancelled)(void);      /* or NULL */
	atomic_uint_fast64_t counter; /* makes temporary names differ */
	atomic_bool released;         /* the reserve */
};

/* errno, where a device that went away is not a file that does not exist. */
int dir_errno(void);

/* Opens a directory of the repository by its name below it. */
int dir_open_dir(const struct dir *dir, const char *name, int *ret, struct cairn_err *err);

/* Operations of the store, see repo/repo_store.h. */
int dir_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn, void *arg,
	     struct cairn_err *err);
int dir_list_rest(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
		  bool *ret_at_once, struct cairn_err *err);
int dir_sweep(struct repo_store *store, struct repo_swept *swept, struct cairn_err *err);

#endif
