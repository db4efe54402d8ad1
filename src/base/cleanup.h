/* SPDX-License-Identifier: Apache-2.0 */

/* Scope-bound ownership.
 *
 * A local that owns something is declared with one of these attributes and
 * initialised to "nothing"; every exit is then a plain `return`. Ownership
 * leaves the scope through cairn_take() or cairn_take_fd().
 */
#ifndef CAIRN_BASE_CLEANUP_H
#define CAIRN_BASE_CLEANUP_H

#include <stdlib.h>

#define cairn_cleanup(fn) __attribute__((cleanup(fn)))
#define cairn_auto_free   cairn_cleanup(cairn_freep)
#define cairn_auto_fd     cairn_cleanup(cairn_closep)

/* Defines `FREE_FN##p`, the cleanup function of a pointer to TYPE. */
#define CAIRN_DEFINE_CLEANUP(type, free_fn)     \
	static inline void free_fn##p(type **p) \
	{                                       \
		if (*p)                         \
			free_fn(*p);            \
	}                                       \
	struct cairn_cleanup_needs_semicolon

/* Passes ownership of the pointer on and sets it to NULL. */
#define cairn_take(p)                             \
	__extension__({                           \
		__typeof__(p) cairn_taken_ = (p); \
		(p) = NULL;                       \
		cairn_taken_;                     \
	})

static inline int cairn_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void cairn_freep(void *p)
{
	free(*(void **)p);
}

/* Closes *fd unless it is negative; keeps errno. */
void cairn_closep(int *fd);

#endif
