/* SPDX-License-Identifier: Apache-2.0 */

/* The config file's content: {"version":2,"id":…,"chunker_polynomial":…}. Pure. */
#ifndef CAIRN_REPO_CONFIG_H
#define CAIRN_REPO_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct cairn_buf;

#define REPO_VERSION    2
#define REPO_CONFIG_MAX 65536

struct repo_config {
	char id[REPO_ID_TEXT_MAX];
	uint64_t polynomial;
};

/* The config of a new repository. */
int repo_config_random(struct repo_config *ret, struct cairn_err *err);
void repo_config_encode(const struct repo_config *config, struct cairn_buf *out);

/* CAIRN_UNIMPLEMENTED  another version
 * CAIRN_DATA_LOSS      not a config
 */
int repo_config_decode(const char *json, size_t n, struct repo_config *ret, struct cairn_err *err);

#endif
