/* SPDX-License-Identifier: Apache-2.0 */

/* The output of another program. */
#ifndef CAIRN_BACKUP_OUTPUT_OF_H
#define CAIRN_BACKUP_OUTPUT_OF_H

#include <stddef.h>

struct cairn_err;

/* Runs words[0] from PATH, without a shell, and returns its standard output, at most
 * `max` bytes, NUL-terminated; owned by the caller. It inherits our standard input and
 * error.
 *
 * CAIRN_NOT_FOUND     no such program
 * CAIRN_PRECONDITION  it failed
 * CAIRN_RANGE         it printed more
 * CAIRN_INVALID       it printed a NUL byte
 */
int backup_output_of(char *const words[], size_t max, char **ret, struct cairn_err *err);

#endif
