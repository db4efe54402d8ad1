/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/random.h"
#include "repo/poly.h"
#include "repo/repo_json.h"
#include "repo/utf8.h"

int repo_config_random(struct repo_config *ret, struct cairn_err *err)
{
	int rc = cairn_random_hex(ret->id, REPO_ID_SIZE, err);

	return rc < 0 ? rc : repo_poly_random(&ret->polynomial, err);
}

void repo_config_encode(const struct repo_config *config, struct cairn_buf *out)
{
	cairn_buf_addf(out, "{\"version\":%d,\"id\":\"%s\",\"chunker_polynomial\":\"%llx\"}",
		       REPO_VERSION, config->id, (unsigned long long)config->polynomial);
}

/* Up to 16 hex digits; an absent value is 0. */
static bool repo_config_polynomial(const json_t *value, uint64_t *ret)
{
	const char *text = json_is_string(value) ? json_string_value(value) : "";
	size_t n = strlen(text), head = n > 8 ? n - 8 : 0;
	uint32_t high = 0, low = 0;

	if (n > 16 || !repo_hex_parse(text, head, &high) ||
	    !repo_hex_parse(text + head, n - head, &low))
		return false;
	*ret = (uint64_t)high << 32 | low;
	return true;
}

int repo_config_decode(const char *json, size_t n, struct repo_config *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_json_freep) json_t *root = json_loadb(json, n, 0, NULL);
	const json_t *version = json_object_get(root, "version");
	const char *id = json_string_value(json_object_get(root, "id"));
	struct repo_config config;
	struct repo_id parsed;

	if (!json_is_integer(version))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "config: not a config");
	if (json_integer_value(version) != REPO_VERSION)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the repository has version %lld; only 2 is understood "
				     "(restic migrate upgrade_repo_v2 makes it of 1)",
				     (long long)json_integer_value(version));
	if (!id || !repo_id_parse(id, strlen(id), &parsed) ||
	    !repo_config_polynomial(json_object_get(root, "chunker_polynomial"),
				    &config.polynomial))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "config: not a config");
	repo_id_format(&parsed, config.id);
	*ret = config;
	return 0;
}
