/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/pool_open.h"

#include "base/err.h"
#include "cli/options.h"
#include "pool/pool.h"

int cmd_pool_open(enum cmd_access access, struct pool **ret, struct cairn_err *err)
{
	struct pool_open_spec spec = {
		.dir = cmd_pool_dir(),
		.read_only = access == CMD_READ,
		.lock_wait_ms = cmd_options.lock_wait_ms,
	};
	int rc = pool_open(&spec, ret, err);

	if (rc != CAIRN_DENIED || access != CMD_QUERY)
		return rc;
	spec.read_only = true;
	return pool_open(&spec, ret, err);
}
