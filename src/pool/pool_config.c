/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "block/checksum.h"
#include "block/set.h"
#include "pool/store/file_owner.h"

#define FIRST_LINE    "cairn pool "
#define VERSION_LINE  "1\n" /* what follows on it */
#define CHECKSUM_LINE "checksum "

/* Copies a value that fits; anything else is damage. */
static bool pool_config_keep(char *out, size_t size, const char *value)
{
	size_t n = strlen(value);

	if (n >= size)
		return false;
	memcpy(out, value, n + 1);
	return true;
}

static bool keep_one_of(char *out, size_t size, const char *value, const char *const names[])
{
	for (; *names; names++)
		if (strcmp(*names, value) == 0)
			return pool_config_keep(out, size, value);
	return false;
}

static bool pool_config_apply(struct marker *m, const char *key, const char *value)
{
	static const char *const backends[] = {"btrfs", "reflink", "copy", "rbd", NULL};
	static const char *const images[] = {"btrfs", "xfs", "none", NULL};
	uint64_t n;

	if (strcmp(key, "state") == 0) {
		m->ready = strcmp(value, "ready") == 0;
		return m->ready || strcmp(value, "creating") == 0;
	}
	if (strcmp(key, "made-directory") == 0) {
		m->made_dir = strcmp(value, "yes") == 0;
		return m->made_dir || strcmp(value, "no") == 0;
	}
	if (strcmp(key, "backend") == 0)
		return keep_one_of(m->backend, sizeof(m->backend), value, backends);
	if (strcmp(key, "image") == 0)
		return keep_one_of(m->image, sizeof(m->image), value, images);
	if (strcmp(key, "id") == 0)
		return pool_config_keep(m->id, sizeof(m->id), value);
	if (cairn_parse_u64(value, &n, NULL) != 0)
		return false;
	if (strcmp(key, "retention-ms") == 0) {
		m->retention_ms = n;
		return true;
	}
	if (strcmp(key, "granularity") == 0) {
		m->granularity = (uint32_t)n;
		return n >= BLOCK_GRANULARITY_MIN && n <= BLOCK_GRANULARITY_MAX &&
		       (n & (n - 1)) == 0;
	}
	return false;
}

static int pool_config_damaged(struct cairn_err *err, const char *what)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%s is damaged: %s; 'cairn pool check --repair' recreates it",
			     MARKER_NAME, what);
}

/* Checks version and checksum before anything else is parsed. */
static int pool_config_check_frame(const char *text, size_t n, const char **ret_checksum,
				   struct cairn_err *err)
{
	const char *sum = strstr(text, "\n" CHECKSUM_LINE);
	char want[17];

	if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
		return pool_config_damaged(err, "it does not begin as one");
	if (strncmp(text + strlen(FIRST_LINE), VERSION_LINE, strlen(VERSION_LINE)) != 0)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this pool was made by a newer version of cairn");
	if (!sum)
		return pool_config_damaged(err, "it has no checksum");
	sum++;
	snprintf(want, sizeof(want), "%016" PRIx64, block_checksum(text, (size_t)(sum - text)));
	sum += strlen(CHECKSUM_LINE);
	if ((size_t)(text + n - sum) != 17 || memcmp(sum, want, 16) != 0 || sum[16] != '\n')
		return pool_config_damaged(err, "its checksum does not fit");
	*ret_checksum = sum - strlen(CHECKSUM_LINE);
	return 0;
}

/* "key value", ending before `stop`. */
static bool apply_line(struct marker *m, const char *line, const char *stop)
{
	const char *space = memchr(line, ' ', (size_t)(stop - line));
	char key[32];
	char value[64];

	if (!space || (size_t)(space - line) >= sizeof(key) ||
	    (size_t)(stop - space - 1) >= sizeof(value))
		return false;
	memcpy(key, line, (size_t)(space - line));
	key[space - line] = '\0';
	memcpy(value, space + 1, (size_t)(stop - space - 1));
	value[stop - space - 1] = '\0';
	return pool_config_apply(m, key, value);
}

int pool_config_decode(const char *text, size_t n, struct marker *ret, struct cairn_err *err)
{
	struct marker m = {0};
	const char *end = NULL;
	const char *line;
	const char *stop;
	int rc;

	if (n > MARKER_BYTES_MAX || memchr(text, '\0', n))
		return pool_config_damaged(err, "it is not text");
	rc = pool_config_check_frame(text, n, &end, err);
	if (rc)
		return rc;
	for (line = text + strlen(FIRST_LINE VERSION_LINE); line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop || !apply_line(&m, line, stop))
			return pool_config_damaged(err, "a line makes no sense");
	}
	if (!m.backend[0] || !m.image[0] || !m.id[0] || !m.granularity)
		return pool_config_damaged(err, "a line is missing");
	*ret = m;
	return 0;
}

void pool_config_salvage(const char *text, size_t n, struct marker *ret)
{
	const char *end = text + n;
	struct marker m = {0};

	for (const char *line = text; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		struct marker with = m;

		if (!stop)
			break;
		if (!memchr(line, '\0', (size_t)(stop - line)) && apply_line(&with, line, stop))
			m = with;
		line = stop + 1;
	}
	*ret = m;
}

int pool_config_read(int dir_fd, struct marker *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = cairn_file_read_regular(dir_fd, MARKER_NAME, MARKER_BYTES_MAX, &text, &n, err);

	if (rc == CAIRN_RANGE)
		return pool_config_damaged(err, "it is too long");
	return rc ? rc : pool_config_decode(text, n, ret, err);
}

int pool_config_encode(const struct marker *m, struct cairn_buf *text, struct cairn_err *err)
{
	cairn_buf_addf(text, "%s%d\n", FIRST_LINE, MARKER_VERSION);
	cairn_buf_addf(text, "state %s\n", m->ready ? "ready" : "creating");
	cairn_buf_addf(text, "backend %s\n", m->backend);
	cairn_buf_addf(text, "image %s\n", m->image);
	cairn_buf_addf(text, "made-directory %s\n", m->made_dir ? "yes" : "no");
	cairn_buf_addf(text, "id %s\n", m->id);
	cairn_buf_addf(text, "retention-ms %" PRIu64 "\n", m->retention_ms);
	cairn_buf_addf(text, "granularity %" PRIu32 "\n", m->granularity);
	if (!cairn_buf_failed(text))
		cairn_buf_addf(text, "%s%016" PRIx64 "\n", CHECKSUM_LINE,
			       block_checksum(text->data, text->len));
	if (cairn_buf_failed(text))
		return cairn_err_nomem(err, MARKER_NAME);
	return 0;
}

int pool_config_write(int dir_fd, const struct marker *m, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(MARKER_BYTES_MAX);
	int rc = pool_config_encode(m, &text, err);

	return rc ? rc : pool_owner_replace(dir_fd, MARKER_NAME, text.data, text.len, err);
}
