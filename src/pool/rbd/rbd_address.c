/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_cluster.h"

#include <string.h>

#include "base/err.h"
#include "pool/rbd/rbd_site.h"

static bool address_take(char *out, size_t size, const char *from, size_t n)
{
	if (n == 0 || n >= size)
		return false;
	memcpy(out, from, n);
	out[n] = '\0';
	return true;
}

static const char *const device_names[] = {
	[RBD_DEVICE_EXPORT] = "export",
	[RBD_DEVICE_KRBD] = "krbd",
	[RBD_DEVICE_NBD] = "nbd",
	[RBD_DEVICE_AUTO] = "auto",
};

const char *rbd_device_name(enum rbd_device device)
{
	return device_names[device];
}

static bool address_device(struct rbd_address *address, const char *at, size_t n)
{
	for (size_t i = 0; i < sizeof(device_names) / sizeof(device_names[0]); i++)
		if (strlen(device_names[i]) == n && strncmp(device_names[i], at, n) == 0) {
			address->device = (enum rbd_device)i;
			return true;
		}
	return false;
}

static bool address_option(struct rbd_address *address, const char *at, size_t n)
{
	if (n > 3 && strncmp(at, "id=", 3) == 0)
		return address_take(address->user, sizeof(address->user), at + 3, n - 3);
	if (n > 5 && strncmp(at, "conf=", 5) == 0)
		return address_take(address->conf, sizeof(address->conf), at + 5, n - 5);
	if (n > 7 && strncmp(at, "device=", 7) == 0)
		return address_device(address, at + 7, n - 7);
	return false;
}

int rbd_address_parse(const char *text, struct rbd_address *ret, struct cairn_err *err)
{
	const char *at = text + strlen(RBD_ADDRESS_PREFIX);
	struct rbd_address address = {0};
	size_t n = strcspn(at, ":");
	size_t slash = strcspn(at, "/:");
	bool good = address_take(address.pool, sizeof(address.pool), at, slash);

	if (good && slash < n)
		good = address_take(address.namespace, sizeof(address.namespace), at + slash + 1,
				    n - slash - 1) &&
		       !strchr(address.namespace, '/');
	for (at += n; good && *at == ':'; at += n) {
		at++;
		n = strcspn(at, ":");
		good = address_option(&address, at, n);
	}
	if (!good)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is not rbd:POOL[/NAMESPACE][:id=USER][:conf=FILE]"
				     "[:device=export|krbd|nbd|auto]",
				     text);
	*ret = address;
	return 0;
}
