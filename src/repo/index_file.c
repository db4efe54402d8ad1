/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/index_file.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "repo/crypt.h"
#include "repo/scan.h"

/* Maximum length of a blob's entry. */
#define BLOB_TEXT_MAX 192

/* Adds a comma if a pack, which ends with '}', precedes. */
static void index_file_separate(struct cairn_buf *out)
{
	if (out->len > 0 && out->data[out->len - 1] == '}')
		cairn_buf_addc(out, ',');
}

void repo_index_file_begin(struct cairn_buf *out)
{
	cairn_buf_adds(out, "{\"packs\":[");
}

void repo_index_file_lost(struct cairn_buf *out)
{
	cairn_buf_adds(out, "],\"cairn_lost\":[");
}

void repo_index_file_end(struct cairn_buf *out)
{
	cairn_buf_adds(out, "]}");
}

static char *index_file_put_text(char *at, const char *text)
{
	size_t n = strlen(text);

	memcpy(at, text, n);
	return at + n;
}

static char *index_file_put_number(char *at, const char *name, uint32_t value)
{
	char digits[10];
	size_t n = sizeof(digits);

	at = index_file_put_text(at, name);
	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	memcpy(at, digits + n, sizeof(digits) - n);
	return at + sizeof(digits) - n;
}

/* Formatted by hand: a file has fifty thousand entries, and printf() takes ten times as long. */
static void put_blob(struct cairn_buf *out, const struct repo_pack_blob *blob)
{
	char *start = (char *)cairn_buf_reserve(out, BLOB_TEXT_MAX);
	char *at = start;

	if (!start)
		return;
	at = index_file_put_text(at, "{\"id\":\"");
	repo_id_format(&blob->id, at);
	at = index_file_put_text(at + REPO_ID_TEXT_LEN, "\",\"type\":\"");
	at = index_file_put_text(at, blob->type == REPO_BLOB_TREE ? "tree" : "data");
	at = index_file_put_number(at, "\",\"offset\":", blob->offset);
	at = index_file_put_number(at, ",\"length\":", blob->length);
	if (blob->plain)
		at = index_file_put_number(at, ",\"uncompressed_length\":", blob->plain);
	*at++ = '}';
	out->len += (size_t)(at - start);
}

void repo_index_file_pack(struct cairn_buf *out, const struct repo_id *id,
			  const struct repo_pack_blob *blobs, size_t n)
{
	char hex[REPO_ID_TEXT_MAX];

	index_file_separate(out);
	cairn_buf_addf(out, "{\"id\":\"%s\",\"blobs\":[", repo_id_format(id, hex));
	for (size_t i = 0; i < n; i++) {
		if (i)
			cairn_buf_addc(out, ',');
		put_blob(out, &blobs[i]);
	}
	cairn_buf_adds(out, "]}");
}

static bool scan_id(struct repo_scan *scan, struct repo_id *ret)
{
	struct repo_scan_text text;

	repo_scan_string(scan, &text);
	return !scan->failed && repo_id_parse(text.at, text.n, ret);
}

static bool index_file_scan_u32(struct repo_scan *scan, uint32_t *ret)
{
	uint64_t value = repo_scan_u64(scan);

	*ret = (uint32_t)value;
	return !scan->failed && value <= UINT32_MAX;
}

static bool scan_type(struct repo_scan *scan, uint8_t *ret)
{
	struct repo_scan_text text;

	repo_scan_string(scan, &text);
	*ret = repo_scan_is(&text, "tree") ? REPO_BLOB_TREE : REPO_BLOB_DATA;
	return *ret == REPO_BLOB_TREE || repo_scan_is(&text, "data");
}

static bool scan_blob(struct repo_scan *scan, struct repo_pack_blob *ret)
{
	bool id = false, type = false, offset = false, length = false, fine = true;
	struct repo_scan_text key;

	*ret = (struct repo_pack_blob){0};
	repo_scan_object(scan);
	while (fine && repo_scan_member(scan, &key)) {
		if (repo_scan_is(&key, "id"))
			fine = id = scan_id(scan, &ret->id);
		else if (repo_scan_is(&key, "type"))
			fine = type = scan_type(scan, &ret->type);
		else if (repo_scan_is(&key, "offset"))
			fine = offset = index_file_scan_u32(scan, &ret->offset);
		else if (repo_scan_is(&key, "length"))
			fine = length = index_file_scan_u32(scan, &ret->length);
		else if (repo_scan_is(&key, "uncompressed_length"))
			fine = index_file_scan_u32(scan, &ret->plain);
		else
			repo_scan_skip(scan);
	}
	return fine && !scan->failed && id && type && offset && length &&
	       ret->length >= REPO_SEAL && ret->offset <= UINT32_MAX - ret->length;
}

static int no_index(const struct repo_scan *scan, const char *json, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "not an index, at byte %zu",
			     (size_t)(scan->at - json));
}

/* Blobs of one pack; `scan` stands before the array. */
static int scan_blobs(struct repo_scan *scan, const char *json,
		      const struct repo_index_visitor *visitor, struct cairn_err *err)
{
	struct repo_pack_blob blob;
	int rc = 0;

	if (repo_scan_null(scan))
		return 0;
	repo_scan_array(scan);
	while (rc == 0 && repo_scan_element(scan)) {
		if (!scan_blob(scan, &blob))
			return no_index(scan, json, err);
		rc = visitor->blob(visitor->arg, &blob, err);
	}
	return rc == 0 && scan->failed ? no_index(scan, json, err) : rc;
}

static int tell_pack(struct repo_scan *scan, const char *json, const struct repo_id *id,
		     const struct repo_index_visitor *visitor, struct cairn_err *err)
{
	int rc = visitor->pack(visitor->arg, id, err);

	return rc < 0 ? rc : scan_blobs(scan, json, visitor, err);
}

/* In files of all known writers the id precedes or follows the blobs. If it follows, the
 * blobs are skipped first and parsed afterwards. */
static int scan_pack(struct repo_scan *scan, const char *json,
		     const struct repo_index_visitor *visitor, struct cairn_err *err)
{
	struct repo_scan late = {0};
	struct repo_scan_text key;
	struct repo_id id;
	bool has_id = false, has_blobs = false;
	int rc = 0;

	repo_scan_object(scan);
	while (rc == 0 && repo_scan_member(scan, &key)) {
		if (repo_scan_is(&key, "id") && !has_id) {
			has_id = scan_id(scan, &id);
			if (!has_id)
				return no_index(scan, json, err);
		} else if (repo_scan_is(&key, "blobs") && !has_blobs) {
			has_blobs = true;
			late = *scan;
			if (has_id)
				rc = tell_pack(scan, json, &id, visitor, err);
			else
				repo_scan_skip(scan);
			late.failed = has_id;
		} else {
			repo_scan_skip(scan);
		}
	}
	if (rc < 0)
		return rc;
	if (scan->failed || !has_id || !has_blobs)
		return no_index(scan, json, err);
	return late.failed ? 0 : tell_pack(&late, json, &id, visitor, err);
}

static int scan_packs(struct repo_scan *scan, const char *json,
		      const struct repo_index_visitor *visitor, struct cairn_err *err)
{
	int rc = 0;

	if (repo_scan_null(scan))
		return 0;
	repo_scan_array(scan);
	while (rc == 0 && repo_scan_element(scan))
		rc = scan_pack(scan, json, visitor, err);
	return rc;
}

int repo_index_file_parse(const char *json, size_t n, const struct repo_index_visitor *visitor,
			  struct cairn_err *err)
{
	struct repo_index_visitor lost = {
		.pack = visitor->lost, .blob = visitor->blob, .arg = visitor->arg};
	struct repo_scan_text key;
	struct repo_scan scan;
	bool has_packs = false;
	int rc = 0;

	repo_scan_init(&scan, json, n);
	repo_scan_object(&scan);
	while (rc == 0 && repo_scan_member(&scan, &key)) {
		if (repo_scan_is(&key, "packs")) {
			has_packs = true;
			rc = scan_packs(&scan, json, visitor, err);
		} else if (repo_scan_is(&key, "cairn_lost") && lost.pack) {
			rc = scan_packs(&scan, json, &lost, err);
		} else {
			repo_scan_skip(&scan);
		}
	}
	if (rc == 0 && (!has_packs || !repo_scan_end(&scan)))
		return no_index(&scan, json, err);
	return rc;
}
