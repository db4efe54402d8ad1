/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/pool_open.h"

#include <stdbool.h>

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

/* A repeated attempt goes by id, since the name may stand for another object by now. The attempt
 * before it may have reached the disk although it failed: an object that is gone is deleted. */
static int delete_once(struct pool *pool, const struct cmd_deletable *kind, const char *name,
		       char id[POOL_ID_MAX + 1], struct cairn_err *err)
{
	bool repeated = id[0];
	int rc;

	if (!repeated && kind->find(pool, name, id) != 0)
		id[0] = 0;
	rc = kind->remove(pool, repeated ? id : name, err);
	return rc == CAIRN_NOT_FOUND && repeated ? 0 : rc;
}

int cmd_pool_delete(struct pool **pool, const struct cmd_deletable *kind, const char *name,
		    struct cairn_err *err)
{
	char id[POOL_ID_MAX + 1] = "";
	int rc = delete_once(*pool, kind, name, id, err);

	for (unsigned try = 1; try < POOL_STOP_TRIES && rc && pool_has_stopped(*pool, err); try++) {
		pool_close(*pool);
		*pool = NULL;
		rc = cmd_pool_open(CMD_WRITE, pool, err);
		if (rc)
			return rc;
		rc = delete_once(*pool, kind, name, id, err);
	}
	return rc;
}
