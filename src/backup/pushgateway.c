/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/pushgateway.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "backup/create.h"
#include "backup/source.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http_client/http_call.h"
#include "http_client/http_client.h"

#define TEXT_MAX 65536

static void pushgateway_gauge(struct cairn_buf *text, const char *name, const char *help,
			      double value)
{
	cairn_buf_addf(text, "# HELP cairn_backup_%s %s\n# TYPE cairn_backup_%s gauge\n", name,
		       help, name);
	cairn_buf_addf(text, "cairn_backup_%s %.17g\n", name, value);
}

static void pushgateway_write_attempt(struct cairn_buf *text, bool ok)
{
	pushgateway_gauge(text, "last_attempt_timestamp_seconds", "When the last attempt ended.",
			  (double)cairn_now_ns() / (double)CAIRN_NS_PER_SEC);
	pushgateway_gauge(text, "last_attempt_success", "1 when the last attempt was a success.",
			  ok);
}

static void pushgateway_write_all(struct cairn_buf *text, const struct backup_result *r,
				  uint64_t elapsed_ns)
{
	pushgateway_write_attempt(text, true);
	pushgateway_gauge(text, "last_success_timestamp_seconds", "When the last backup ended.",
			  (double)cairn_now_ns() / (double)CAIRN_NS_PER_SEC);
	pushgateway_gauge(text, "duration_seconds", "How long it took.",
			  (double)elapsed_ns / (double)CAIRN_NS_PER_SEC);
	pushgateway_gauge(text, "size_bytes", "Size of the volume.", (double)r->size);
	pushgateway_gauge(text, "changed_bytes", "What had changed, or was allocated.",
			  (double)r->bytes_changed);
	pushgateway_gauge(text, "read_bytes", "What was read.", (double)r->bytes_read);
	pushgateway_gauge(text, "stored_bytes", "What the repository grew by.",
			  (double)r->bytes_stored);
	pushgateway_gauge(text, "chunks", "Chunks of the volume.", (double)r->chunks);
	pushgateway_gauge(text, "incremental", "1 when only what changed was read.",
			  r->mode == BACKUP_CHANGED);
}

/* URL/metrics/job/cairn_backup/volume/NAME */
static char *url_of(const char *gateway, const char *volume)
{
	char *escaped = curl_easy_escape(NULL, volume, 0);
	size_t n = strlen(gateway);
	char *url = NULL;

	while (n > 0 && gateway[n - 1] == '/')
		n--;
	if (escaped)
		url = cairn_printf("%.*s/metrics/job/cairn_backup/volume/%s", (int)n, gateway,
				   escaped);
	curl_free(escaped);
	return url;
}

/* PUT replaces the group, POST only the metrics of the text. */
static int send_text(const char *method, const char *url, const struct cairn_buf *text,
		     struct cairn_err *err)
{
	cairn_cleanup(http_client_fields_freep) struct curl_slist *fields = NULL;
	struct http_client_settings settings = {.plain = true, .timeout_ms = PUSH_TIMEOUT_MS};
	struct http_client_call call = {
		.method = method, .url = url, .body = text->data, .body_len = text->len};
	struct cairn_err why = {0};
	long status = 0;
	int rc;

	if (!http_client_add_field(&fields, "Content-Type: text/plain; version=0.0.4"))
		return cairn_err_nomem(err, "metrics");
	call.fields = fields;
	rc = http_client_call(NULL, &settings, &call, &status, &why);
	if (rc)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "push gateway: %s", why.msg);
	if (status < 200 || status > 299)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "push gateway: status %ld", status);
	return 0;
}

int backup_push_metrics(const char *gateway, const struct backup_source *source,
			const struct backup_result *result, uint64_t elapsed_ns,
			struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);
	cairn_auto_free char *url = url_of(gateway, source->volume_name);

	pushgateway_write_all(&text, result, elapsed_ns);
	if (!url || cairn_buf_failed(&text))
		return cairn_err_nomem(err, "metrics");
	return send_text("PUT", url, &text, err);
}

int backup_push_failure(const char *gateway, const char *volume, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);
	cairn_auto_free char *url = url_of(gateway, volume);

	pushgateway_write_attempt(&text, false);
	if (!url || cairn_buf_failed(&text))
		return cairn_err_nomem(err, "metrics");
	return send_text("POST", url, &text, err);
}
