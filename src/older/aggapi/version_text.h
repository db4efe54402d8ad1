/* SPDX-License-Identifier: Apache-2.0 */

/* Changes the apiVersion of Kubernetes objects in a JSON text that passes in pieces.
 *
 * The apiVersion of an object, of the items of a list, of the object of a watch event, of
 * the objects in a Table, and of their managedFields is replaced if it is `from`. Every
 * other byte passes unchanged: ownerReferences, and all that a user may store. The memory
 * does not depend on the text.
 */
#ifndef CAIRN_AGGAPI_VERSION_TEXT_H
#define CAIRN_AGGAPI_VERSION_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

/* Limit of an apiVersion that is replaced. */
#define AGGAPI_VERSION_TEXT_MAX 64

/* Levels of an event with a Table whose row holds an object with managedFields, and some. */
#define AGGAPI_VERSION_LEVELS 16

struct aggapi_version_text {
	const char *from, *to;
	enum { AGGAPI_TEXT_OUTSIDE, AGGAPI_TEXT_KEY, AGGAPI_TEXT_VALUE, AGGAPI_TEXT_OTHER } mode;
	bool escaped;  /* the last character of a string was a backslash */
	bool want_key; /* in an object, before a colon */
	uint8_t levels[AGGAPI_VERSION_LEVELS];
	size_t n_levels;
	uint64_t below; /* depth inside a value in which nothing is replaced */
	char key[16];
	size_t key_len; /* sizeof(key): longer than any key of interest */
	char held[AGGAPI_VERSION_TEXT_MAX];
	size_t n_held;
};

/* The strings are borrowed. */
void aggapi_version_text_init(struct aggapi_version_text *text, const char *from, const char *to);

/* Appends the changed bytes to `out`; the caller checks cairn_buf_failed(). */
void aggapi_version_text_push(struct aggapi_version_text *text, const char *data, size_t n,
			      struct cairn_buf *out);

/* Appends what is still held, at the end of the text. */
void aggapi_version_text_end(struct aggapi_version_text *text, struct cairn_buf *out);

/* The same for the tree of a request: an object with its managedFields, or a JSON Patch
 * (an array). Returns -1 when memory is short. */
int aggapi_version_tree(json_t *tree, const char *from, const char *to);

#endif
