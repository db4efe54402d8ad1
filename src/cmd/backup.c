/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/backup.h"

#include <string.h>

#include "cmd/role.h"

struct cmd_repository cmd_repository;

int cmd_backup_call(const char *symbol, const void *options, struct cairn_err *err)
{
	int (*call)(const void *, struct cairn_err *);
	void *found;
	int rc = role_load("backup", symbol, &found, err);

	if (rc)
		return rc;
	memcpy(&call, &found, sizeof(call)); /* as POSIX has it for dlsym() */
	return call(options, err);
}
