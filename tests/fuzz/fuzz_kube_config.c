/* SPDX-License-Identifier: Apache-2.0 */

/* Any text as a kubeconfig: refused with a reason, or a server to talk to. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kube/kube_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kube_config *config = NULL;
	struct cairn_err err = {0};
	int rc = kube_config_parse((const char *)data, size, "/dir/config", NULL, &config, &err);

	if ((rc == 0) != (config != NULL) || (rc < 0 && !err.msg[0]))
		abort();
	if (config && (strncmp(kube_config_server(config), "http", 4) != 0 ||
		       !kube_config_namespace(config)[0]))
		abort();
	kube_config_free(config);
	return 0;
}
