/* SPDX-License-Identifier: Apache-2.0 */

#include "base/audit.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/lock.h"

/* Remaining lines for unauthenticated callers. */
static struct {
	pthread_mutex_t lock;
	uint64_t at_ns; /* when `lines` was counted; 0: never */
	double lines;
	uint64_t left_out;
} strangers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void audit_add_text(struct cairn_buf *out, const char *key, const char *text)
{
	char code[CAIRN_JSON_ESCAPE_MAX];
	size_t used;
	size_t done = 0;

	cairn_buf_addf(out, ",\"%s\":\"", key);
	for (; text && text[done] && done < CAIRN_AUDIT_TEXT_MAX; done += used) {
		size_t n = cairn_json_escape(text + done, code, &used);

		cairn_buf_add(out, code, n);
	}
	cairn_buf_addc(out, '"');
}

void cairn_audit_format(const struct cairn_audit *audit, uint64_t left_out, struct cairn_buf *out)
{
	char now[CAIRN_TIME_TEXT_MAX];

	cairn_buf_addf(out, "{\"time\":\"%s\"", cairn_format_time(cairn_now_ns(), now));
	audit_add_text(out, "audit", audit->op);
	audit_add_text(out, "decision", audit->allowed ? "allowed" : "refused");
	audit_add_text(out, "user", audit->user);
	audit_add_text(out, "peer", audit->peer);
	audit_add_text(out, "namespace", audit->ns);
	audit_add_text(out, "snapshot", audit->snapshot);
	audit_add_text(out, "base", audit->base);
	cairn_buf_addf(out, ",\"bytes\":%" PRIu64, audit->bytes);
	audit_add_text(out, "code", cairn_code_name(audit->code));
	cairn_buf_addf(out, ",\"ms\":%" PRIu64, audit->ms);
	if (left_out > 0)
		cairn_buf_addf(out, ",\"left_out\":%" PRIu64, left_out);
	cairn_buf_adds(out, "}\n");
}

/* False if the line must be omitted; else returns how many were omitted before. */
static bool stranger_may(uint64_t *ret_left_out)
{
	cairn_scoped_lock(&strangers.lock);
	uint64_t now = cairn_monotonic_ns();

	if (strangers.at_ns == 0)
		strangers.lines = CAIRN_AUDIT_BURST;
	else
		strangers.lines += (double)(now - strangers.at_ns) / (double)CAIRN_NS_PER_SEC *
				   CAIRN_AUDIT_STRANGERS;
	if (strangers.lines > CAIRN_AUDIT_BURST)
		strangers.lines = CAIRN_AUDIT_BURST;
	strangers.at_ns = now;
	if (strangers.lines < 1) {
		strangers.left_out++;
		return false;
	}
	strangers.lines -= 1;
	*ret_left_out = strangers.left_out;
	strangers.left_out = 0;
	return true;
}

void cairn_audit_write(const struct cairn_audit *audit)
{
	cairn_auto_buf struct cairn_buf line = CAIRN_BUF_INIT(CAIRN_AUDIT_LINE_MAX);
	uint64_t left_out = 0;

	if ((!audit->user || !audit->user[0]) && !stranger_may(&left_out))
		return;
	cairn_audit_format(audit, left_out, &line);
	if (!cairn_buf_failed(&line))
		(void)cairn_write_full(STDERR_FILENO, line.data, line.len);
}
