/* SPDX-License-Identifier: Apache-2.0 */

/* Paths and queries of the REST server: a path, a newline, a query. What is taken
 * must be names that can not lead anywhere else. */

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "older/diffsnap/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void must_be_name(const char *name)
{
	size_t n = strnlen(name, DIFFSNAP_NAME_MAX + 1);

	must(n <= DIFFSNAP_NAME_MAX);
	for (size_t i = 0; i < n; i++)
		must(strchr("abcdefghijklmnopqrstuvwxyz0123456789-.", name[i]) != NULL);
	must(n == 0 || (name[0] != '.' && name[n - 1] != '.'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct diffsnap_query query;
	struct cairn_err err = {0};
	char *text = malloc(size + 1);
	char *rest = text;
	const char *path;
	int rc;

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	path = strsep(&rest, "\n");
	rc = diffsnap_query_parse(path, rest ? rest : "", &query, &err);
	must(rc == 0 || rc == CAIRN_NOT_FOUND || rc == CAIRN_INVALID);
	must(rc == err.code);
	if (rc == 0) {
		must_be_name(query.ns);
		must_be_name(query.name);
		must_be_name(query.base);
		must_be_name(query.target);
		must(query.ns[0] != '\0');
		must(query.direct ? query.target[0] != '\0' : query.name[0] != '\0');
		must(query.has_start == (query.start_offset[0] != '\0'));
		must(query.n_parameters <= DIFFSNAP_PARAMETERS_MAX);
		for (size_t i = 0; i < query.n_parameters; i++)
			must(query.parameters[i].key[0] != '\0' &&
			     strlen(query.parameters[i].value) <= DIFFSNAP_VALUE_MAX);
	}
	free(text);
	return 0;
}
