/* SPDX-License-Identifier: Apache-2.0 */

/* The size of an image without opening it.
 *
 * The object "rbd_id.NAME" holds the image's id, as a length of four bytes and the text; the
 * omap of "rbd_header.ID" holds the size under "size", in eight bytes. Both have been so since
 * images of format 2 exist. What does not look so is left to librbd.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_omap.h"

#define ID_MAX 96U

static uint64_t little_endian(const uint8_t *at, size_t n)
{
	uint64_t value = 0;

	while (n-- > 0)
		value = value << 8 | at[n];
	return value;
}

/* False: it has to be opened. CAIRN_NOT_FOUND in *ret_rc: there is no image. */
static bool read_id(struct rbd_cluster *cluster, const char *name, char id[ID_MAX], int *ret_rc,
		    struct cairn_err *err)
{
	char object[RBD_IMAGE_NAME_MAX + 16];
	uint8_t bytes[ID_MAX + 4];
	int n;

	snprintf(object, sizeof(object), "rbd_id.%s", name);
	n = rbd_cluster_api(cluster)->rados_read(rbd_cluster_io(cluster), object, (char *)bytes,
						 sizeof(bytes), 0);
	if (n == -ENOENT)
		*ret_rc = rbd_api_err(err, n, "open image '%s'", name);
	if (n < 5 || n >= (int)sizeof(bytes) || little_endian(bytes, 4) != (uint64_t)n - 4)
		return false;
	memcpy(id, bytes + 4, (size_t)n - 4);
	id[n - 4] = '\0';
	return strlen(id) == (size_t)n - 4;
}

static bool read_size(struct rbd_cluster *cluster, const char *id, uint64_t *ret)
{
	cairn_auto_free uint8_t *value = NULL;
	char object[ID_MAX + 16];
	size_t n = 0;

	snprintf(object, sizeof(object), "rbd_header.%s", id);
	if (rbd_omap_get(cluster, object, "size", 4, &value, &n, NULL) != 0 || n != 8)
		return false;
	*ret = little_endian(value, 8);
	return true;
}

int rbd_image_size(struct rbd_cluster *cluster, const char *name, uint64_t *ret,
		   struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	char id[ID_MAX];
	int rc = 0;

	if (read_id(cluster, name, id, &rc, err) && read_size(cluster, id, ret))
		return 0;
	if (!rc)
		rc = rbd_image_open(cluster, name, false, &handle, err);
	if (rc)
		return rc;
	rc = handle.api->rbd_get_size(handle.image, ret);
	return rc < 0 ? rbd_api_err(err, rc, "size of '%s'", name) : 0;
}
