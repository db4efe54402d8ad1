/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/output_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "cli/options.h"

const char *cmd_snapshot_text(const struct pool_snapshot *snapshot, char out[CMD_SNAPSHOT_TEXT_MAX])
{
	snprintf(out, CMD_SNAPSHOT_TEXT_MAX, "%s@%s", snapshot->volume_name, snapshot->name);
	return out;
}

const char *cmd_time_text(uint64_t ns_since_epoch, char out[CMD_TIME_TEXT_MAX])
{
	char full[CAIRN_TIME_TEXT_MAX];
	const char *dot;

	cairn_format_time(ns_since_epoch, full);
	dot = strchr(full, '.');
	snprintf(out, CMD_TIME_TEXT_MAX, "%.*sZ", dot ? (int)(dot - full) : 0, full);
	return out;
}

const char *cmd_duration_text(uint64_t ms, char out[CMD_DURATION_TEXT_MAX])
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
	size_t len = 0;

	if (ms == UINT64_MAX)
		return "for ever";
	out[0] = '\0';
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (ms >= units[i].ms && len < CMD_DURATION_TEXT_MAX)
			len += (size_t)snprintf(out + len, CMD_DURATION_TEXT_MAX - len,
						"%" PRIu64 "%s", ms / units[i].ms, units[i].unit);
		ms %= units[i].ms;
	}
	return out;
}

const char *cmd_count_text(uint64_t n, const char *what, char out[CMD_COUNT_TEXT_MAX])
{
	snprintf(out, CMD_COUNT_TEXT_MAX, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
	return out;
}

const char *cmd_set_state_text(enum pool_set_state state)
{
	switch (state) {
	case POOL_SET_NONE:
		return "none";
	case POOL_SET_PENDING:
		return "pending";
	case POOL_SET_READY:
		return "ready";
	case POOL_SET_LOST:
		return "lost";
	}
	return "unknown";
}

void cmd_json_begin(struct cairn_json *json)
{
	cairn_json_init(json, STDOUT_FILENO, cmd_options.output == CMD_OUTPUT_JSON);
}

int cmd_json_end(struct cairn_json *json, struct cairn_err *err)
{
	cairn_json_newline(json);
	return cairn_json_finish(json, err);
}

void cmd_json_field_string(struct cairn_json *json, const char *key, const char *value)
{
	cairn_json_key(json, key);
	cairn_json_string(json, value);
}

void cmd_json_field_u64(struct cairn_json *json, const char *key, uint64_t value)
{
	cairn_json_key(json, key);
	cairn_json_u64(json, value);
}

void cmd_json_field_bool(struct cairn_json *json, const char *key, bool value)
{
	cairn_json_key(json, key);
	cairn_json_bool(json, value);
}

void cmd_json_field_time(struct cairn_json *json, const char *key, uint64_t ns)
{
	char text[CAIRN_TIME_TEXT_MAX];

	cmd_json_field_string(json, key, ns ? cairn_format_time(ns, text) : NULL);
}

void cmd_json_volume_fields(struct cairn_json *json, const struct pool_volume *volume)
{
	cmd_json_field_string(json, "id", volume->id);
	cmd_json_field_string(json, "name", volume->name);
	cmd_json_field_u64(json, "size_bytes", volume->size);
	cmd_json_field_time(json, "created_at", volume->created_ns);
	cmd_json_field_string(json, "origin_id", *volume->origin ? volume->origin : NULL);
	cmd_json_field_string(json, "restoring", *volume->restoring ? volume->restoring : NULL);
	cmd_json_field_bool(json, "deleted", volume->deleted);
	cmd_json_field_u64(json, "retention_ms", volume->retention_ms);
	cmd_json_field_u64(json, "granularity_bytes", volume->granularity);
}

void cmd_json_usage_fields(struct cairn_json *json, const struct pool_usage *usage)
{
	cairn_json_key(json, "used_bytes");
	if (usage)
		cairn_json_u64(json, usage->used_bytes);
	else
		cairn_json_null(json);
	cmd_json_field_string(json, "device", usage && *usage->device ? usage->device : NULL);
	cmd_json_field_string(json, "device_kind", usage ? usage->device_kind : NULL);
	cmd_json_field_string(json, "mounted", usage && *usage->mounted ? usage->mounted : NULL);
}

int cmd_json_volume(const struct pool_volume *volume, struct cairn_err *err)
{
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_volume_fields(&json, volume);
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

void cmd_json_snapshot_fields(struct cairn_json *json, const struct pool_snapshot *snapshot)
{
	cmd_json_field_string(json, "id", snapshot->id);
	cmd_json_field_string(json, "name", snapshot->name);
	cmd_json_field_string(json, "volume", snapshot->volume_name);
	cmd_json_field_string(json, "volume_id", snapshot->volume_id);
	cmd_json_field_string(json, "parent_id", *snapshot->parent ? snapshot->parent : NULL);
	cmd_json_field_u64(json, "size_bytes", snapshot->size);
	cmd_json_field_time(json, "created_at", snapshot->created_ns);
	cmd_json_field_bool(json, "deleted", snapshot->deleted);
	cmd_json_field_time(json, "expires_at", snapshot->deleted ? snapshot->expires_ns : 0);
	cairn_json_key(json, "change_set");
	cairn_json_object_begin(json);
	cmd_json_field_string(json, "state", cmd_set_state_text(snapshot->set));
	cmd_json_field_u64(json, "extents", snapshot->set_extents);
	cmd_json_field_u64(json, "changed_bytes", snapshot->set_changed_bytes);
	cmd_json_field_u64(json, "zero_bytes", snapshot->set_zero_bytes);
	cairn_json_object_end(json);
}

void cmd_listing_begin(struct cmd_listing *listing, const char *key,
		       const struct cmd_column *columns, size_t n)
{
	cmd_table_init(&listing->table, columns, n);
	cmd_json_begin(&listing->json);
	if (cmd_options.output != CMD_OUTPUT_JSON)
		return;
	cairn_json_object_begin(&listing->json);
	cairn_json_key(&listing->json, key);
	cairn_json_array_begin(&listing->json);
}

int cmd_listing_end(struct cmd_listing *listing, struct cairn_err *err)
{
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		cmd_table_print(&listing->table);
	cmd_table_done(&listing->table);
	if (cmd_options.output == CMD_OUTPUT_JSON) {
		cairn_json_array_end(&listing->json);
		cairn_json_object_end(&listing->json);
		cairn_json_newline(&listing->json);
	}
	return cairn_json_finish(&listing->json, err);
}

void cmd_listing_record_begin(struct cmd_listing *listing)
{
	cairn_json_object_begin(&listing->json);
}

void cmd_listing_record_end(struct cmd_listing *listing)
{
	cairn_json_object_end(&listing->json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(&listing->json);
}

void cmd_listing_snapshot(struct cmd_listing *listing, const struct pool_snapshot *snapshot)
{
	cmd_listing_record_begin(listing);
	cmd_json_snapshot_fields(&listing->json, snapshot);
	cmd_listing_record_end(listing);
}
