/* SPDX-License-Identifier: Apache-2.0 */

/* The program of an export of an image on Ceph (pool/rbd/rbd_export.h). The pool starts it; its
 * arguments are not an interface for users. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/rbd/rbd_export.h"

int main(int argc, char **argv)
{
	struct rbd_export_spec spec = {0};

	/* Of the process that started it. */
	close_range(STDERR_FILENO + 1, ~0U, 0);
	if (argc != 6) {
		fprintf(stderr, "cairn-rbd-export is started by 'cairn volume attach'\n");
		return 3;
	}
	spec.address = argv[1];
	spec.ref.kind = strcmp(argv[2], "snapshot") == 0 ? STORE_SNAPSHOT : STORE_VOLUME;
	spec.ref.id = argv[3];
	spec.file = argv[4];
	spec.read_only = strcmp(argv[5], "rw") != 0;
	return rbd_export_run(&spec);
}
