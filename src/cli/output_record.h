/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots as JSON, and listings in all three forms. The names of
 * the fields are documented in the man pages and stay as they are. */
#ifndef CAIRN_CLI_RECORD_H
#define CAIRN_CLI_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "cli/table.h"
#include "pool/pool.h"

struct cairn_err;

/* "data@s1"; returns `out`. */
#define CMD_SNAPSHOT_TEXT_MAX (2 * POOL_NAME_MAX + 2)
const char *cmd_snapshot_text(const struct pool_snapshot *snapshot,
			      char out[CMD_SNAPSHOT_TEXT_MAX]);

/* A time for tables: to the second, UTC. Returns `out`. */
#define CMD_TIME_TEXT_MAX 24
const char *cmd_time_text(uint64_t ns_since_epoch, char out[CMD_TIME_TEXT_MAX]);

/* "30d", "1d12h", "90s"; returns `out`. */
#define CMD_DURATION_TEXT_MAX 48
const char *cmd_duration_text(uint64_t ms, char out[CMD_DURATION_TEXT_MAX]);

/* "1 volume", "2 volumes"; returns `out`. */
#define CMD_COUNT_TEXT_MAX 48
const char *cmd_count_text(uint64_t n, const char *what, char out[CMD_COUNT_TEXT_MAX]);

const char *cmd_set_state_text(enum pool_set_state state);

/* Starts a JSON document or line on standard output, as --output asks. */
void cmd_json_begin(struct cairn_json *json);
int cmd_json_end(struct cairn_json *json, struct cairn_err *err);

void cmd_json_field_string(struct cairn_json *json, const char *key, const char *value);
void cmd_json_field_u64(struct cairn_json *json, const char *key, uint64_t value);
void cmd_json_field_bool(struct cairn_json *json, const char *key, bool value);
void cmd_json_field_time(struct cairn_json *json, const char *key, uint64_t ns); /* 0: null */

/* The fields of a record, inside an object that the caller opened. */
void cmd_json_volume_fields(struct cairn_json *json, const struct pool_volume *volume);
void cmd_json_snapshot_fields(struct cairn_json *json, const struct pool_snapshot *snapshot);

/* used_bytes, device and mounted; null where `usage` is NULL. */
void cmd_json_usage_fields(struct cairn_json *json, const struct pool_usage *usage);

/* A volume as the whole output. */
int cmd_json_volume(const struct pool_volume *volume, struct cairn_err *err);

/* A listing: rows for people, {"KEY": [...]} or a line an item for programs. */
struct cmd_listing {
	struct cmd_table table;
	struct cairn_json json;
};

void cmd_listing_begin(struct cmd_listing *listing, const char *key,
		       const struct cmd_column *columns, size_t n);
int cmd_listing_end(struct cmd_listing *listing, struct cairn_err *err);

/* Around the fields of one item, for programs. */
void cmd_listing_record_begin(struct cmd_listing *listing);
void cmd_listing_record_end(struct cmd_listing *listing);

/* One snapshot, for programs. */
void cmd_listing_snapshot(struct cmd_listing *listing, const struct pool_snapshot *snapshot);

#endif
