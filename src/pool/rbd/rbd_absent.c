/* SPDX-License-Identifier: Apache-2.0 */

/* rbd_site.h where the headers of librbd were missing at build time. */

#include "base/err.h"
#include "pool/rbd/rbd_site.h"
#include "pool/site.h"

static int rbd_is_absent(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "this cairn was built without librbd");
}

static int rbd_absent_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
			     struct cairn_err *err)
{
	(void)spec;
	(void)ret;
	return rbd_is_absent(err);
}

static int rbd_absent_destroy(const char *address, struct cairn_err *err)
{
	(void)address;
	return rbd_is_absent(err);
}

static int rbd_absent_open(struct pool *pool, const struct pool_open_spec *spec,
			   struct cairn_err *err)
{
	(void)pool;
	(void)spec;
	return rbd_is_absent(err);
}

static int rbd_absent_absolute(const char *address, char *ret, size_t n, struct cairn_err *err)
{
	(void)address;
	(void)ret;
	(void)n;
	return rbd_is_absent(err);
}

const struct pool_site_ops rbd_site = {
	.name = "rbd",
	.create = rbd_absent_create,
	.destroy = rbd_absent_destroy,
	.open = rbd_absent_open,
	.absolute = rbd_absent_absolute,
};
