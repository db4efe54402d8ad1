/* SPDX-License-Identifier: Apache-2.0 */

#include "client/strings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* Larger sizes are invalid: no version will have them. */
#define STRUCT_MAX 4096

int client_struct_copy(void *to, size_t to_size, size_t least, const void *from,
		       struct cairn_err *err)
{
	const uint8_t *bytes = from;
	size_t size;

	if (!from)
		return cairn_err_set(err, CAIRN_INVALID, "NULL instead of a struct");
	memcpy(&size, from, sizeof(size));
	if (size < least || size > STRUCT_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the struct's size is not set");
	for (size_t i = to_size; i < size; i++)
		if (bytes[i])
			return cairn_err_set(err, CAIRN_INVALID,
					     "an option is newer than this library");
	memset(to, 0, to_size);
	memcpy(to, from, size < to_size ? size : to_size);
	return 0;
}

int client_strings_copy(void *object, const size_t *offsets, size_t n, char **owned,
			struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		char *at = (char *)object + offsets[i];
		const char *given;

		memcpy(&given, at, sizeof(given));
		owned[i] = given && *given ? cairn_strdup(given) : NULL;
		if (given && *given && !owned[i])
			return cairn_err_nomem(err, "options");
		given = owned[i];
		memcpy(at, &given, sizeof(given));
	}
	return 0;
}

void client_strings_done(char **owned, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (owned[i])
			explicit_bzero(owned[i], strlen(owned[i])); /* one is a token */
		free(owned[i]);
		owned[i] = NULL;
	}
}
