/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn velero-plugin`. A Velero server executes it directly, with Velero's
 * flags, because nothing else of Cairn is in Velero's container. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "roles/role.h"
#include "velero/handshake.h"
#include "velero/plugin.h"

#define ARENAS 1 /* glibc's heaps; one is enough, because calls come one after the other */

static int plugin_main(int argc, char **argv)
{
	struct cairn_err err = {0};

	role_keep_memory_private(true); /* it holds the token of Velero's account */
	mallopt(M_ARENA_MAX, ARENAS);
	/* Drop pages that only the loading of libraries needed. */
	cairn_mem_drop_clean();
	if (velero_plugin_run(argc, argv, &err) == 0)
		return 0;
	fprintf(stderr, "cairn-velero-plugin: %s\n", err.msg);
	return 1;
}

/* A user started it by hand, or as `cairn velero-plugin`: the error says what it is for. `cairn` has
 * parsed the command line. The parser is not linked here: with the completion of command lines it
 * needs the engine of pools, and Velero starts this program for nearly every call. */
static int plugin_refuse(void)
{
	struct cairn_err err = {0};
	int rc = velero_handshake_check(getenv, &err);

	fprintf(stderr, "cairn: %s\n", err.msg);
	return -rc;
}

int main(int argc, char **argv)
{
	return getenv(VELERO_COOKIE) ? plugin_main(argc, argv) : plugin_refuse();
}
