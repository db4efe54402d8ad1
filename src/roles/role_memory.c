/* SPDX-License-Identifier: Apache-2.0 */

/* Without the parser of command lines, which needs most of Cairn: a plugin of Velero has none. */

#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "roles/role.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_LEAK_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_LEAK_SANITIZER true
#endif
#endif
#ifndef HAS_LEAK_SANITIZER
#define HAS_LEAK_SANITIZER false
#endif

/* Keeps secrets out of core files. A handler that core_pattern names gets them in spite
 * of the limit, so a server also makes itself undumpable, which keeps other processes of
 * the user from reading its memory too. A leak sanitizer could not read it then either. */
void role_keep_memory_private(bool is_server)
{
	const struct rlimit none = {0};

	(void)setrlimit(RLIMIT_CORE, &none);
	if (is_server && !HAS_LEAK_SANITIZER)
		(void)prctl(PR_SET_DUMPABLE, 0);
}
