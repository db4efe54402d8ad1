/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/capability.h"

#include <string.h>

#include "base/err.h"

typedef Csi__V1__VolumeCapability__AccessMode__Mode access_mode;

#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name

static access_mode mode_of(const Csi__V1__VolumeCapability *capability)
{
	return capability->access_mode ? capability->access_mode->mode : MODE(UNKNOWN);
}

bool csi_capability_is_block(const Csi__V1__VolumeCapability *capability)
{
	return capability->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
}

bool csi_capability_is_read_only(const Csi__V1__VolumeCapability *capability)
{
	access_mode mode = mode_of(capability);

	return mode == MODE(SINGLE_NODE_READER_ONLY) || mode == MODE(MULTI_NODE_READER_ONLY);
}

bool csi_capability_is_single_writer(const Csi__V1__VolumeCapability *capability)
{
	return mode_of(capability) == MODE(SINGLE_NODE_SINGLE_WRITER);
}

bool csi_capability_names_fs(const Csi__V1__VolumeCapability *capability)
{
	return !csi_capability_is_block(capability) && capability->mount &&
	       capability->mount->fs_type[0];
}

const char *csi_capability_fs(const Csi__V1__VolumeCapability *capability)
{
	return csi_capability_names_fs(capability) ? capability->mount->fs_type : CSI_FS_DEFAULT;
}

static bool fs_is_known(const char *fs)
{
	static const char *const known[] = {"ext4", "xfs", "btrfs"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(fs, known[i]) == 0)
			return true;
	return false;
}

/* A newer version of CSI may have more. */
static bool mode_is_known(access_mode mode)
{
	return protobuf_c_enum_descriptor_get_value(
		       &csi__v1__volume_capability__access_mode__mode__descriptor, (int)mode) !=
	       NULL;
}

int csi_capability_check(const Csi__V1__VolumeCapability *capability, struct cairn_err *err)
{
	access_mode mode;

	if (!capability)
		return cairn_err_set(err, CAIRN_INVALID, "the volume capability is missing");
	if (capability->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE__NOT_SET)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the volume capability has neither block nor mount");
	mode = mode_of(capability);
	if (mode == MODE(UNKNOWN))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the volume capability has no access mode");
	if (mode == MODE(MULTI_NODE_SINGLE_WRITER) || mode == MODE(MULTI_NODE_MULTI_WRITER) ||
	    mode == MODE(MULTI_NODE_READER_ONLY))
		return cairn_err_set(err, CAIRN_INVALID, "a volume can be used from one node only");
	if (!mode_is_known(mode))
		return cairn_err_set(err, CAIRN_INVALID, "access mode %d is not known", (int)mode);
	if (!fs_is_known(csi_capability_fs(capability)))
		return cairn_err_set(err, CAIRN_INVALID,
				     "filesystem '%s' is not offered: use ext4, xfs or btrfs",
				     csi_capability_fs(capability));
	return 0;
}

int csi_capabilities_check(Csi__V1__VolumeCapability *const *list, size_t n, struct cairn_err *err)
{
	if (n == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the volume capabilities are missing");
	for (size_t i = 0; i < n; i++) {
		int rc = csi_capability_check(list[i], err);

		if (rc)
			return rc;
	}
	return 0;
}
