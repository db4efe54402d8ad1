/* SPDX-License-Identifier: Apache-2.0 */

/* A repository in a bucket of S3 or a compatible server. Keys are
 * PREFIX/config, PREFIX/keys/ID, PREFIX/data/XX/ID and so on. */
#ifndef CAIRN_REPO_S3_S3_H
#define CAIRN_REPO_S3_S3_H

struct cairn_err;
struct repo_store;
struct repo_store_options;

/* `place` is the part after "s3:": [http[s]://]host[:port]/bucket[/prefix]. */
int repo_s3_open(const struct repo_store_options *options, const char *place,
		 struct repo_store **ret, struct cairn_err *err);

#endif
