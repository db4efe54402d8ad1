/* SPDX-License-Identifier: Apache-2.0 */

/* Structs of the library's interface: taken over whatever version the caller was
 * built for, and the strings in them copied. */
#ifndef CAIRN_CLIENT_STRINGS_H
#define CAIRN_CLIENT_STRINGS_H

#include <stddef.h>

struct cairn_err;

/* Copies a struct of the caller's version, whose size is its first member, over
 * one of ours. What ours has and the caller's has not stays 0.
 *
 * CAIRN_INVALID  the size is none, or what we do not know of is not 0
 */
int client_struct_copy(void *to, size_t to_size, size_t least, const void *from,
		       struct cairn_err *err);

/* Replaces the strings at these offsets of `object` by copies that are kept in
 * `owned`; an empty one becomes NULL. */
int client_strings_copy(void *object, const size_t *offsets, size_t n, char **owned,
			struct cairn_err *err);

/* Overwrites and frees them. */
void client_strings_done(char **owned, size_t n);

#endif
