/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics from the records of backups on claims. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "inventory/backup_metrics.h"
#include "kube/object.h"
#include "net/metrics.h"

static json_t *claim_of(const char *name)
{
	return json_pack("{s:{s:s,s:s,s:s,s:{s:s}},s:{},s:{}}", "metadata", "name", name,
			 "namespace", "shop", "uid", name, "annotations", "other", "x", "spec",
			 "status");
}

static void put(json_t *claim, const char *key, const struct cluster_record *record)
{
	cairn_auto_free char *name = cairn_printf(CLUSTER_RECORD_PREFIX "%s", key);
	cairn_auto_free char *text = NULL;
	struct cairn_err err = {0};

	assert_ok(backup_cluster_record_text(record, kube_uid(claim), &text, &err), &err);
	assert_ok(kube_set(claim, &err, json_string(text), "metadata", "annotations", name), &err);
}

static void records_become_metrics(void **state)
{
	kube_auto_json json_t *data = claim_of("data");
	kube_auto_json json_t *logs = claim_of("logs");
	kube_auto_json json_t *plain = claim_of("plain");
	json_t *claims[] = {data, logs, plain};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1 << 20);

	(void)state;
	put(data, "1",
	    &(struct cluster_record){.repository = "a\"\\b",
				     .attempt_s = 9,
				     .success_s = 8,
				     .mode = CLUSTER_RECORD_CHANGED,
				     .read = 4096,
				     .backups = 3,
				     .failures = 1,
				     .fallbacks = 2});
	put(logs, "1", &(struct cluster_record){.repository = "r", .attempt_s = 7, .failures = 1});
	for (size_t i = 0; i < 3; i++)
		inventory_backup_metrics_trim(claims[i]);
	assert_null(kube_annotation(data, "other"));
	assert_null(kube_at(data, "spec"));
	inventory_backup_metrics_text(claims, 3, true, &buf);
	cairn_buf_addc(&buf, '\0');
	assert_false(cairn_buf_failed(&buf));
#define DATA "{volume=\"shop/data\",repository=\"a\\\"\\\\b\"}"
#define LOGS "{volume=\"shop/logs\",repository=\"r\"}"
	assert_non_null(strstr((const char *)buf.data,
			       "cairn_backup_last_success_timestamp_seconds" DATA " 8\n"));
	assert_non_null(strstr((const char *)buf.data, "cairn_backup_read_bytes" DATA " 4096\n"));
	assert_non_null(strstr((const char *)buf.data, "cairn_backup_fallbacks_total" DATA " 2\n"));
	assert_non_null(strstr((const char *)buf.data, "cairn_backup_incremental" DATA " 1\n"));
	assert_non_null(
		strstr((const char *)buf.data, "cairn_backup_last_attempt_success" LOGS " 0\n"));
	assert_non_null(strstr((const char *)buf.data, "cairn_backup_failures_total" LOGS " 1\n"));
	/* Of a claim that was never backed up there is no time, which would be 1970. */
	assert_null(
		strstr((const char *)buf.data, "cairn_backup_last_success_timestamp_seconds" LOGS));
	assert_null(strstr((const char *)buf.data, "cairn_backup_incremental" LOGS));
	assert_null(strstr((const char *)buf.data, "plain"));
	assert_non_null(strstr((const char *)buf.data, "\ncairn_backup_records_dropped 0\n"));
	assert_non_null(strstr((const char *)buf.data, "\ncairn_backup_records_current 1\n"));
}

/* A claim with the longest name and a record with the longest label. */
static json_t *largest_claim(int number, unsigned records)
{
	struct cluster_record record = {.success_s = UINT64_MAX, .mode = CLUSTER_RECORD_FULL};
	char name[254];
	json_t *claim;

	memset(record.repository, '"', sizeof(record.repository) - 1);
	memset(name, 'n', sizeof(name));
	snprintf(name + sizeof(name) - 6, 6, "%05d", number);
	claim = claim_of(name);
	for (unsigned k = 0; k < records; k++) {
		char key[2] = {(char)('0' + k)};

		put(claim, key, &record);
	}
	return claim;
}

static void no_claim_makes_the_scrape_too_large(void **state)
{
	enum { N = 3000 };
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(NET_METRICS_TEXT_MAX);
	json_t **claims = cairn_calloc(N, sizeof(*claims));

	(void)state;
	assert_non_null(claims);
	for (int i = 0; i < N; i++)
		claims[i] = largest_claim(i, i ? 1 : 9);
	inventory_backup_metrics_text(claims, 1, false, &buf);
	cairn_buf_addc(&buf, '\0');
	/* Of one claim a few. */
	assert_non_null(strstr((const char *)buf.data, "\ncairn_backup_records_dropped 5\n"));
	assert_non_null(strstr((const char *)buf.data, "\ncairn_backup_records_current 0\n"));
	cairn_buf_reset(&buf);
	inventory_backup_metrics_text(claims, N, true, &buf);
	cairn_buf_addc(&buf, '\0');
	assert_false(cairn_buf_failed(&buf));
	assert_null(strstr((const char *)buf.data, "\ncairn_backup_records_dropped 5\n"));
	for (int i = 0; i < N; i++)
		json_decref(claims[i]);
	free(claims);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_become_metrics),
		cmocka_unit_test(no_claim_makes_the_scrape_too_large),
	};

	return cmocka_run_group_tests_name("inventory/backup_metrics", tests, NULL, NULL);
}
