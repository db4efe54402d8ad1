/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/role.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define PATH_BYTES 4096

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

int role_load(const char *name, const char *symbol, void **ret, struct cairn_err *err)
{
	char path[PATH_BYTES];
	void *module = NULL;
	void *found;

	path_beside_program(name, path);
	if (path[0] && access(path, R_OK) == 0)
		module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!module && (!path[0] || access(path, R_OK) != 0)) {
		snprintf(path, sizeof(path), "%s/cairn-%s.so", CAIRN_ROLE_DIR, name);
		module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	}
	found = module ? dlsym(module, symbol) : NULL;
	if (!found)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the role '%s' can not be loaded: %s", name, dlerror());
	*ret = found;
	return 0;
}
