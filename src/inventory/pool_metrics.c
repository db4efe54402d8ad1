/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/pool_metrics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define METRIC      "cairn_pool_bytes{"
#define PORT        "9808"
#define TIMEOUT_MS  5000U
#define BYTES_LIMIT 1.8e19

/* The value of a line `name{labels} value`; false if it is not a number of bytes. */
static bool line_value(const char *line, uint64_t *ret)
{
	const char *brace = strchr(line, '}');
	char *end;
	double value;

	if (!brace)
		return false;
	value = strtod(brace + 1, &end);
	if (end == brace + 1 || !(value >= 0) || value > BYTES_LIMIT)
		return false;
	*ret = (uint64_t)value;
	return true;
}

int inventory_pool_space_parse(const char *text, struct inventory_pool_space *ret,
			       struct cairn_err *err)
{
	struct inventory_pool_space space = {0};
	bool found = false;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *end;
		uint64_t bytes;

		line += *line == '\n';
		end = line + strcspn(line, "}\n");
		if (strncmp(line, METRIC, strlen(METRIC)) != 0 || *end != '}' ||
		    !line_value(line, &bytes))
			continue;
		if (memmem(line, (size_t)(end - line), "kind=\"total\"", 12))
			space.total += bytes;
		else if (memmem(line, (size_t)(end - line), "kind=\"free\"", 11))
			space.free += bytes;
		found = true;
	}
	if (!found || space.total == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "the metrics name no pool");
	*ret = space;
	return 0;
}

int inventory_pool_space_get(struct kube_client *client, const json_t *pod,
			     struct inventory_pool_space *ret, struct cairn_err *err)
{
	const struct kube_call how = {.timeout_ms = TIMEOUT_MS, .once = true};
	cairn_auto_free char *path =
		cairn_printf("/api/v1/namespaces/%s/pods/%s:" PORT "/proxy/metrics",
			     kube_namespace(pod), kube_name(pod));
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = path ? kube_get_raw(client, path, &how, &text, &n, err)
		      : cairn_err_nomem(err, "metrics");

	return rc ? rc : inventory_pool_space_parse(text, ret, err);
}
