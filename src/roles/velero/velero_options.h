/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn velero`; its flags fill them. */
#ifndef CAIRN_ROLES_VELERO_OPTIONS_H
#define CAIRN_ROLES_VELERO_OPTIONS_H

#include <stdbool.h>

struct velero_describe_options {
	const char *name;
	const char *kubeconfig;  /* NULL: searched for */
	const char *ns;          /* of the server */
	const char *store;       /* NULL: the Backup's, through the cluster */
	const char *region;      /* NULL: us-east-1 */
	const char *credentials; /* file; NULL: the environment */
	const char *profile;     /* of the file; NULL: default */
	const char *ca_file;
	bool details;
};

extern struct velero_describe_options velero_describe_options;

#endif
