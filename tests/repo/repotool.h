/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of repotool share. */
#ifndef CAIRN_TESTS_REPO_REPOTOOL_H
#define CAIRN_TESTS_REPO_REPOTOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "repo/repo.h"

struct cairn_err;

/* A number from the environment. */
uint64_t tool_number(const char *name, uint64_t otherwise);

/* Opens the repository that the environment names. */
int tool_open(enum repo_lock_kind lock, bool index, struct repo **ret, struct cairn_err *err);

/* Commands. */
int tool_put(int argc, char **argv, struct cairn_err *err);
int tool_get(int argc, char **argv, struct cairn_err *err);

#endif
