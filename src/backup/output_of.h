/* SPDX-License-Identifier: Apache-2.0 */

/* What another program prints. */
#ifndef CAIRN_BACKUP_OUTPUT_OF_H
#define CAIRN_BACKUP_OUTPUT_OF_H

#include <stddef.h>

struct cairn_err;

/* Runs words[0] from PATH, without a shell, and gives what it wrote to standard
 * output, at most `max` bytes, NUL-terminated; owned by the caller. Standard input and
 * error are ours.
 *
 * CAIRN_NOT_FOUND     there is no such program
 * CAIRN_PRECONDITION  it failed
 * CAIRN_RANGE         it printed more
 * CAIRN_INVALID       it printed a NUL byte
 */
int output_of(char *const words[], size_t max, char **ret, struct cairn_err *err);

#endif
