/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/role.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

#define PATH_BYTES 4096

/* Heaps that threads share. By default glibc makes eight for each processor, and
 * what a burst of calls has left free in one of them helps no other. */
#define ARENAS 2

/* "<directory of the program>/cairn-<name>.so", for a build tree. */
static void path_beside_program(const char *name, char out[PATH_BYTES])
{
	char self[PATH_BYTES - 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	out[0] = '\0';
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	snprintf(out, PATH_BYTES, "%s/cairn-%s.so", self, name);
}

/* Binds lazily: a module's own symbols are bound at once all the same (it is
 * linked so), those of the thirty libraries behind libcurl when they are used,
 * which is mostly never. One of them is GnuTLS, which would initialise itself
 * though nobody calls it; children must not inherit the word that stops it. */
static void *open_module(const char *path)
{
	static const char quiet[] = "GNUTLS_NO_IMPLICIT_INIT";
	bool told = getenv(quiet) != NULL;
	void *module;

	if (!told)
		setenv(quiet, "1", 0);
	module = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
	if (!told)
		unsetenv(quiet);
	return module;
}

#if defined(__SANITIZE_ADDRESS__)
#define LEAKS_ARE_LOOKED_FOR true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_LOOKED_FOR true
#endif
#endif
#ifndef LEAKS_ARE_LOOKED_FOR
#define LEAKS_ARE_LOOKED_FOR false
#endif

/* Servers hold tokens, keys and passwords of others in memory. */
static bool is_server(const char *name)
{
	static const char *const servers[] = {"aggapi", "diffsnap", "driver", "manager", "sidecar"};

	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
		if (strcmp(servers[i], name) == 0)
			return true;
	return false;
}

/* Secrets do not get into core files. A handler that core_pattern names takes them in
 * spite of the limit, so servers also say that they can not be dumped, which keeps
 * other processes of the user from reading their memory too; a leak sanitizer could
 * not look at them then. */
static void keep_memory_private(const char *name)
{
	const struct rlimit none = {0};

	(void)setrlimit(RLIMIT_CORE, &none);
	if (is_server(name) && !LEAKS_ARE_LOOKED_FOR)
		(void)prctl(PR_SET_DUMPABLE, 0);
}

int role_load(const char *name, const char *symbol, void *ret, struct cairn_err *err)
{
	char path[PATH_BYTES];
	void *module = NULL;
	void *found;

	mallopt(M_ARENA_MAX, ARENAS);
	/* What the program needed to come here is not needed beside the libraries. */
	cairn_mem_drop_clean();
	path_beside_program(name, path);
	if (path[0] && access(path, R_OK) == 0)
		module = open_module(path);
	if (!module && (!path[0] || access(path, R_OK) != 0)) {
		snprintf(path, sizeof(path), "%s/cairn-%s.so", CAIRN_ROLE_DIR, name);
		module = open_module(path);
	}
	found = module ? dlsym(module, symbol) : NULL;
	if (!found)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the role '%s' can not be loaded: %s", name, dlerror());
	memcpy(ret, &found, sizeof(found)); /* as POSIX has it for dlsym() */
	keep_memory_private(name);
	return 0;
}
