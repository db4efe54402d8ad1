/* SPDX-License-Identifier: Apache-2.0 */

/* What callers send to the sidecar: requests, and tokens inside them. The first
 * byte says what the rest is. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "kube/jwt.h"
#include "sidecar/secret.h"
#include "sidecar/sidecar_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_request(bool delta, const uint8_t *data, size_t size)
{
	cairn_cleanup(sidecar_request_done) struct sidecar_request request = {0};
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(1U << 20);

	if (sidecar_request_read(delta, data, size, &request, NULL) != 0)
		return;
	/* What is let through can be asked of a driver, and names nothing but a name. */
	if (!request.token[0] || strchr(request.ns, '/') || strchr(request.snapshot, '/') ||
	    request.max_results < 0 || request.starting_offset < 0)
		abort();
	if (sidecar_request_pack(&request, "handle", NULL, &out, NULL) != 0)
		abort();
}

static void try_text(const uint8_t *data, size_t size)
{
	static const struct sidecar_template with = {.content = "c", .ns = "n", .name = "s"};
	cairn_auto_free char *text = cairn_strndup((const char *)data, size);
	cairn_auto_free char *expanded = NULL;
	uint64_t seconds;

	if (!text)
		return;
	(void)kube_jwt_expiry(text, &seconds);
	if (sidecar_template_expand(&with, text, &expanded, NULL) == 0 && strchr(expanded, '$'))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 3 == 2)
		try_text(data + 1, size - 1);
	else
		try_request(data[0] % 3, data + 1, size - 1);
	return 0;
}
