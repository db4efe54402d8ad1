/* SPDX-License-Identifier: Apache-2.0 */

/* Where the other programs of this installation are. */
#ifndef CAIRN_BASE_PROGRAM_H
#define CAIRN_BASE_PROGRAM_H

#include <stddef.h>

/* The path of "cairn-NAME" beside this program: in the directory `roles` beside `cairn`, as a
 * build directory looks, or in the directory of this program if it is such a program itself.
 * "" if it cannot be known; the file may be missing. */
void cairn_program_beside(const char *name, char *out, size_t size);

#endif
