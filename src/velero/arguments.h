/* SPDX-License-Identifier: Apache-2.0 */

/* The command line of a plugin: all flags of the Velero server that started it, as the
 * server's user wrote them ("--a=b" and "--a b"). What is not known here is passed over. */
#ifndef CAIRN_VELERO_ARGUMENTS_H
#define CAIRN_VELERO_ARGUMENTS_H

#include <stdbool.h>

#include "base/log.h"

struct velero_arguments {
	const char *kubeconfig; /* NULL: not given. Borrowed from argv */
	const char *ns;         /* Velero's; NULL: not given. Borrowed from argv */
	bool csi_enabled;       /* Velero's own CSI actions are on */
	enum cairn_log_level log_level;
};

/* argv[0] is the program. */
struct velero_arguments velero_arguments_read(int argc, char *const *argv);

#endif
