/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"

#define LIBRADOS "librados.so.2"
#define LIBRBD   "librbd.so.1"

struct symbol {
	const char *name;
	size_t offset; /* of the member */
};

#define API_SYMBOL(name) {#name, offsetof(struct rbd_api, name)},

static const struct symbol rados_symbols[] = {RBD_API_RADOS(API_SYMBOL)};
static const struct symbol rbd_symbols[] = {RBD_API_RBD(API_SYMBOL)};

static int rbd_api_find(const char *library, const struct symbol *symbols, size_t n,
			struct rbd_api *api, struct cairn_err *err)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "a pool on Ceph needs %s, which cannot be loaded: %.120s",
				     library, dlerror());
	for (size_t i = 0; i < n; i++) {
		void *symbol = dlsym(handle, symbols[i].name);

		if (!symbol)
			return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
					     "%s has no function %s: it is too old", library,
					     symbols[i].name);
		memcpy((char *)api + symbols[i].offset, &symbol, sizeof(symbol));
	}
	return 0;
}

int rbd_api_load(const struct rbd_api **ret, struct cairn_err *err)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static struct rbd_api api;
	static bool loaded;
	int rc = 0;

	cairn_scoped_lock(&mutex);
	if (!loaded)
		rc = rbd_api_find(LIBRADOS, rados_symbols,
				  sizeof(rados_symbols) / sizeof(rados_symbols[0]), &api, err);
	if (!loaded && !rc)
		rc = rbd_api_find(LIBRBD, rbd_symbols, sizeof(rbd_symbols) / sizeof(rbd_symbols[0]),
				  &api, err);
	if (rc)
		return rc;
	loaded = true;
	*ret = &api;
	return 0;
}

int rbd_api_err(struct cairn_err *err, int rc, const char *fmt, ...)
{
	char text[160];
	va_list args;
	int code;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	code = cairn_err_sys(err, -rc, "%s", text);
	if (rc == -EBUSY)
		code = CAIRN_ABORTED;
	else if (rc == -ESHUTDOWN || rc == -ETIMEDOUT || rc == -ENOTCONN || rc == -EROFS)
		code = CAIRN_UNAVAILABLE;
	return cairn_err_recode(err, code);
}
