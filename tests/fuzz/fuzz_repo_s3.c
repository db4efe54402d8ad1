/* SPDX-License-Identifier: Apache-2.0 */

/* Listings and other answers of S3. */
#include <stdlib.h>
#include <string.h>

#include "repo/s3/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	(void)err;
	*(uint64_t *)arg += strlen(key) + size;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct s3_page page;
	uint64_t sum = 0;
	char text[64];

	if (s3_parse_list((const char *)data, size, take, &sum, &page, NULL) == 0 &&
	    page.truncated && !page.token[0])
		abort();
	if (s3_find_text((const char *)data, size, "UploadId", text, sizeof(text)) &&
	    strlen(text) >= sizeof(text))
		abort();
	return 0;
}
