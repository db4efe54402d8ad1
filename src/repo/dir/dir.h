/* SPDX-License-Identifier: Apache-2.0 */

/* A repository in a directory: config, keys/, locks/, snapshots/, index/ and
 * data/<first two digits>/. A file appears by rename, after its bytes are on
 * disk; names that are not ids (such as leftovers "<id>-tmp-…") are ignored. */
#ifndef CAIRN_REPO_DIR_DIR_H
#define CAIRN_REPO_DIR_DIR_H

struct cairn_err;
struct repo_store;
struct repo_store_options;

int repo_dir_open(const struct repo_store_options *options, const char *path,
		  struct repo_store **ret, struct cairn_err *err);

#endif
