/* SPDX-License-Identifier: Apache-2.0 */

/* Values of gRPC's header fields: percent and base64 coding, timeouts, statuses,
 * names, paths, and field lists as they come over the wire. */

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "net/address.h"
#include "net/grpc/grpc_status.h"
#include "net/grpc/grpc_text.h"
#include "net/header_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_percent(const char *text, size_t n)
{
	char *encoded = malloc(n * 3 + 1), *back = malloc(n * 3 + 1);
	size_t len;

	if (!encoded || !back)
		abort();
	len = grpc_percent_encode(text, n, encoded);
	for (size_t i = 0; i < len; i++) {
		if (encoded[i] < ' ' || encoded[i] > '~')
			abort();
	}
	if (grpc_percent_decode(encoded, len, back) != n || memcmp(back, text, n) != 0)
		abort();
	if (grpc_percent_decode(text, n, back) > n)
		abort();
	free(encoded);
	free(back);
}

static void check_base64(const uint8_t *data, size_t n)
{
	char *text = malloc(cairn_base64_length(n) + 1);
	uint8_t *back = malloc(n + 3);
	size_t got;

	if (!text || !back)
		abort();
	if (cairn_base64_encode(data, n, text) != cairn_base64_length(n))
		abort();
	if (!cairn_base64_decode(text, cairn_base64_length(n), back, &got) || got != n ||
	    memcmp(back, data, n) != 0)
		abort();
	if (cairn_base64_decode((const char *)data, n, back, &got) && got > n)
		abort();
	free(text);
	free(back);
}

static void check_values(const char *text, size_t n)
{
	char written[GRPC_TIMEOUT_TEXT_MAX];
	uint64_t ns, again;
	int code;

	if (grpc_timeout_parse(text, n, &ns) && ns > 0) {
		size_t len = grpc_timeout_format(ns, written);

		if (!grpc_timeout_parse(written, len, &again) ||
		    (again < ns && ns < UINT64_MAX / 2))
			abort();
	}
	if (grpc_status_parse(text, n, &code) && (code > 0 || code < -16))
		abort();
	grpc_name_valid(text, n);
	grpc_name_reserved(text, n);
	grpc_value_valid(text, n);
	grpc_content_type_valid(text, n);
	grpc_path_valid(text, n);
}

/* The first newline divides name and value. */
static void check_fields(const char *text, size_t n)
{
	const char *line = n ? memchr(text, '\n', n) : NULL;
	struct net_fields fields;

	if (!line)
		return;
	net_fields_init(&fields);
	net_fields_add_wire(&fields, text, (size_t)(line - text), line + 1,
			    n - (size_t)(line - text) - 1);
	for (size_t i = 0; i < fields.n; i++) {
		const char *value = net_field_value(&fields, net_fields_at(&fields, i));

		if (value[net_fields_at(&fields, i)->value_len] != '\0')
			abort();
	}
	net_fields_done(&fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct net_address address;
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	check_percent((const char *)data, size);
	check_base64(data, size);
	check_values((const char *)data, size);
	check_fields((const char *)data, size);
	if (net_address_parse(text, &address, NULL) == 0)
		net_address_is_loopback(&address);
	free(text);
	return 0;
}
