/* SPDX-License-Identifier: Apache-2.0 */

/* Copies structs of the public interface, for callers that were built with another
 * version, and the strings in them. */
#ifndef CAIRN_CLIENT_STRINGS_H
#define CAIRN_CLIENT_STRINGS_H

#include <stddef.h>

struct cairn_err;

/* Copies a struct of the caller's version, whose size is its first member, to one of ours.
 * Members that the caller's version lacks stay 0.
 *
 * CAIRN_INVALID  invalid size, or an unknown member is not 0
 */
int client_struct_copy(void *to, size_t to_size, size_t least, const void *from,
		       struct cairn_err *err);

/* Replaces the strings at these offsets of `object` by copies, which are stored in
 * `owned`; an empty string becomes NULL. */
int client_strings_copy(void *object, const size_t *offsets, size_t n, char **owned,
			struct cairn_err *err);

/* Overwrites and frees them. */
void client_strings_done(char **owned, size_t n);

#endif
