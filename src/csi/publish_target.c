/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/publish_target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "pool/catalogue/front_end_note.h"
#include "pool/device/mounts.h"
#include "pool/pool.h"

#define KEY_MAX (POOL_ID_MAX + 64)

/* A path may be longer than a key: the key has its checksum, the value the path. */
static void publish_target_make_key(const char *volume_id, const char *path, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "target/%s/%016" PRIx64, volume_id,
		 block_checksum(path, strlen(path)));
}

int csi_target_add(struct pool *pool, const char *volume_id, const char *path, bool read_only,
		   struct cairn_err *err)
{
	cairn_auto_free char *value = cairn_printf("%c%s", read_only ? 'r' : 'w', path);
	char key[KEY_MAX];

	if (!value)
		return cairn_err_nomem(err, "target");
	publish_target_make_key(volume_id, path, key);
	return pool_note_put(pool, key, value, err);
}

int csi_target_remove(struct pool *pool, const char *volume_id, const char *path,
		      struct cairn_err *err)
{
	char key[KEY_MAX];

	publish_target_make_key(volume_id, path, key);
	return pool_note_put(pool, key, NULL, err);
}

struct looking {
	const char *path;
	struct csi_targets *ret;
};

static bool is_device(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static int publish_target_look_at(void *arg, const char *key, struct pool_note value,
				  struct cairn_err *err)
{
	const struct looking *looking = arg;
	cairn_auto_free char *path = NULL;
	bool mounted;
	int rc;

	(void)key;
	if (value.len < 2)
		return 0;
	path = cairn_strndup((const char *)value.data + 1, value.len - 1);
	if (!path)
		return cairn_err_nomem(err, "target");
	rc = pool_mounts_is_mount_point(path, &mounted, err);
	if (rc || !mounted)
		return rc;
	looking->ret->devices |= is_device(path);
	if (strcmp(path, looking->path) == 0) {
		looking->ret->this_one = true;
		looking->ret->this_device = is_device(path);
		looking->ret->this_read_only = ((const char *)value.data)[0] == 'r';
	} else {
		looking->ret->others++;
	}
	return 0;
}

int csi_targets_get(struct pool *pool, const char *volume_id, const char *path,
		    struct csi_targets *ret, struct cairn_err *err)
{
	struct looking looking = {.path = path, .ret = ret};
	char prefix[KEY_MAX];

	int rc;

	*ret = (struct csi_targets){0};
	snprintf(prefix, sizeof(prefix), "target/%s/", volume_id);
	rc = pool_note_scan(pool, prefix, publish_target_look_at, &looking, err);
	if (!rc && path[0] && !ret->this_one)
		rc = pool_mounts_is_mount_point(path, &ret->foreign, err);
	return rc;
}

/* One at a time, because a scan cannot modify what it iterates over. */
static int publish_target_take_key(void *arg, const char *key, struct pool_note value,
				   struct cairn_err *err)
{
	char *out = arg;

	(void)value;
	(void)err;
	snprintf(out, KEY_MAX, "%s", key);
	return 1;
}

int csi_targets_drop(struct pool *pool, const char *volume_id, struct cairn_err *err)
{
	char prefix[KEY_MAX];
	int rc = 0;

	snprintf(prefix, sizeof(prefix), "target/%s/", volume_id);
	while (!rc) {
		char key[KEY_MAX] = "";

		rc = pool_note_scan(pool, prefix, publish_target_take_key, key, err);
		if (rc < 0 || !key[0])
			return rc;
		rc = pool_note_put(pool, key, NULL, err);
	}
	return rc;
}
