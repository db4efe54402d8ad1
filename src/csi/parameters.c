/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/parameters.h"

#include <stdlib.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "base/num.h"
#include "block/checksum.h"

#define SIDECAR_PREFIX "csi.storage.k8s.io/"

/* Layout of the entries that protobuf-c generates for every map<string, string>. */
struct generated_entry {
	ProtobufCMessage base;
	char *key;
	char *value;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct csi_entry *)a)->key, ((const struct csi_entry *)b)->key);
}

int csi_entries_copy(void *const *map, size_t n, struct csi_entry out[CSI_ENTRIES_MAX],
		     struct cairn_err *err)
{
	if (n > CSI_ENTRIES_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "more than %u parameters",
				     CSI_ENTRIES_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct generated_entry *entry = map[i];

		out[i] = (struct csi_entry){.key = entry->key, .value = entry->value};
	}
	qsort(out, n, sizeof(out[0]), by_key);
	return 0;
}

static bool is_sidecars(const struct csi_entry *entry)
{
	return strncmp(entry->key, SIDECAR_PREFIX, strlen(SIDECAR_PREFIX)) == 0;
}

int csi_parameters_parse(const struct csi_entry *entries, size_t n, const char **ret_pool,
			 struct cairn_err *err)
{
	*ret_pool = NULL;
	for (size_t i = 0; i < n; i++) {
		if (is_sidecars(&entries[i]))
			continue;
		if (strcmp(entries[i].key, "pool") != 0)
			return cairn_err_set(err, CAIRN_INVALID,
					     "unknown parameter '%s'; supported: pool",
					     entries[i].key);
		*ret_pool = entries[i].value;
	}
	return 0;
}

int csi_no_entries(void *const *map, size_t n, struct cairn_err *err)
{
	struct csi_entry entries[CSI_ENTRIES_MAX];
	int rc = csi_entries_copy(map, n, entries, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (!is_sidecars(&entries[i]))
			rc = cairn_err_set(err, CAIRN_INVALID,
					   "unknown parameter '%s'; snapshots have none",
					   entries[i].key);
	return rc;
}

int csi_mutable_parse(const struct csi_entry *entries, size_t n, struct pool_volume_settings *ret,
		      struct cairn_err *err)
{
	*ret = (struct pool_volume_settings){0};
	for (size_t i = 0; i < n; i++) {
		uint64_t value;
		int rc;

		if (is_sidecars(&entries[i]))
			continue;
		if (strcmp(entries[i].key, "retention") == 0) {
			rc = cairn_parse_duration_ms(entries[i].value, &ret->retention_ms, err);
			ret->set_retention = true;
		} else if (strcmp(entries[i].key, "granularity") == 0) {
			rc = cairn_parse_size(entries[i].value, &value, err);
			ret->granularity = rc || value > UINT32_MAX ? 1 : (uint32_t)value;
			ret->set_granularity = true;
		} else {
			return cairn_err_set(err, CAIRN_INVALID,
					     "unknown mutable parameter '%s'; supported: "
					     "retention, granularity",
					     entries[i].key);
		}
		if (rc) {
			cairn_err_wrap(err, "mutable parameter '%s'", entries[i].key);
			return cairn_err_recode(err, CAIRN_INVALID);
		}
	}
	/* Checked here, before the volume is created. */
	return pool_volume_settings_check(ret, err);
}

uint64_t csi_entries_checksum(const struct csi_entry *entries, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t parts[3];

		if (is_sidecars(&entries[i]))
			continue;
		parts[0] = sum;
		parts[1] = block_checksum(entries[i].key, strlen(entries[i].key));
		parts[2] = block_checksum(entries[i].value, strlen(entries[i].value));
		sum = block_checksum(parts, sizeof(parts));
	}
	return sum;
}
