/* SPDX-License-Identifier: Apache-2.0 */

/* Lists of TLS names, as text with a NUL behind it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/tls/tls_names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = cairn_strndup((const char *)data, size);
	char out[128];
	int version;

	if (!text)
		return 0;
	if (net_tls_ciphers_parse(text, out, sizeof(out), NULL) == 0 && strlen(out) >= sizeof(out))
		abort();
	if (net_tls_curves_parse(text, out, sizeof(out), NULL) == 0 && !*out)
		abort();
	(void)net_tls_version_parse(text, &version, NULL);
	free(text);
	return 0;
}
