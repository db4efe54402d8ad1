/* SPDX-License-Identifier: Apache-2.0 */

/* Data tokens. The input is taken once as the text of a token, which must be
 * refused unless it is exactly what sealing its content gives; and once as the
 * fields of a token, which must come back, and not after one bit of the text was
 * changed. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "csi/data_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct csi_token_key key = {.bytes = {1, 2, 3}};

static void must(bool holds)
{
	if (!holds)
		abort();
}

static size_t seal(const struct csi_data_token *token, char *out)
{
	cairn_cleanup(csi_token_sealer_freep) struct csi_token_sealer *sealer = NULL;

	must(csi_token_sealer_new(&key, &sealer, NULL) == 0);
	return csi_token_seal(sealer, token, out);
}

static void check_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	char again[CSI_TOKEN_TEXT_MAX + 1];
	struct csi_data_token token;
	struct cairn_err err = {0};
	int rc;

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	rc = csi_data_token_open(&key, text, NULL, 1790000000, &token, &err);
	must(rc == 0 || rc == CAIRN_UNAUTHENTICATED);
	if (rc == 0) {
		must(seal(&token, again) == strlen(text));
		must(strcmp(again, text) == 0);
	}
	free(text);
}

static void check_fields(const uint8_t *data, size_t size)
{
	struct csi_data_token token = {.issued_s = 1790000000, .ttl_s = 60};
	struct csi_data_token found;
	char text[CSI_TOKEN_TEXT_MAX + 1];
	size_t id = size > 16 ? (size - 16) % (POOL_ID_MAX + 1) : 0;
	size_t n;

	if (id == 0 || memchr(data + 16, 0, id))
		return;
	memcpy(&token.offset, data, 8);
	memcpy(&token.length, data + 8, 8);
	memcpy(token.snapshot, data + 16, id);
	n = seal(&token, text);
	must(n > 0 && n <= CSI_TOKEN_TEXT_MAX);
	must(csi_data_token_open(&key, text, NULL, 1790000000, &found, NULL) == 0);
	must(found.offset == token.offset && found.length == token.length);
	must(strcmp(found.snapshot, token.snapshot) == 0);
	text[token.offset % n] ^= 1;
	must(csi_data_token_open(&key, text, NULL, 1790000000, &found, NULL) ==
	     CAIRN_UNAUTHENTICATED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_text(data, size);
	check_fields(data, size);
	return 0;
}
