/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/site.h"

#include <string.h>

#include "pool/rbd/rbd_site.h"

const struct pool_site_ops *pool_site_of(const char *address)
{
	bool is_rbd = strncmp(address, RBD_ADDRESS_PREFIX, strlen(RBD_ADDRESS_PREFIX)) == 0;

	return is_rbd ? &rbd_site : &pool_directory_site;
}

int pool_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
		struct cairn_err *err)
{
	return pool_site_of(spec->dir)->create(spec, ret, err);
}

int pool_destroy(const char *dir, struct cairn_err *err)
{
	return pool_site_of(dir)->destroy(dir, err);
}

int pool_address_absolute(const char *dir, char *ret, size_t n, struct cairn_err *err)
{
	return pool_site_of(dir)->absolute(dir, ret, n, err);
}
