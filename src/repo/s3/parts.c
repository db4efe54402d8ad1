/* SPDX-License-Identifier: Apache-2.0 */

/* Multipart uploads: the object appears when the last call has named its parts. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/s3/s3_impl.h"
#include "repo/s3/xml.h"

struct upload {
	struct s3 *s3;
	const char *key;
	char *query; /* "uploadId=…", encoded */
	struct cairn_buf parts;
};

static int parts_begin(struct upload *upload, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(65536);
	cairn_auto_buf struct cairn_buf query = CAIRN_BUF_INIT(8192);
	struct s3_call call = {.s3 = upload->s3,
			       .key = upload->key,
			       .query = "uploads=",
			       .lock = upload->s3->lock_days > 0,
			       .request = {.method = "POST", .text = &answer}};
	char id[1024];
	int rc = s3_call(&call, err);

	if (rc < 0)
		return rc;
	if (!answer.data ||
	    !s3_find_text((char *)answer.data, answer.len, "UploadId", id, sizeof(id)))
		return cairn_err_set(err, CAIRN_INTERNAL, "the server began no upload");
	cairn_buf_adds(&query, "uploadId=");
	s3_encode(&query, id, 0);
	upload->query = cairn_buf_take_string(&query);
	return upload->query ? 0 : cairn_err_nomem(err, "an upload");
}

static int put_part(struct upload *upload, unsigned number, const uint8_t *data, size_t n,
		    struct cairn_err *err)
{
	cairn_auto_free char *query = cairn_printf("partNumber=%u&%s", number, upload->query);
	struct s3_call call = {.s3 = upload->s3,
			       .key = upload->key,
			       .query = query,
			       .request = {.method = "PUT", .body = data, .body_n = n}};
	int rc;

	if (!query)
		return cairn_err_nomem(err, "a request");
	rc = s3_call(&call, err);
	if (rc < 0)
		return cairn_err_wrap(err, "part %u", number);
	/* The tag is sent back as it came, with its quotes. Refuse what would have to be
	 * escaped in XML. */
	if (!call.answer.etag[0] || strpbrk(call.answer.etag, "<>&"))
		return cairn_err_set(err, CAIRN_INTERNAL, "part %u has no tag", number);
	cairn_buf_addf(&upload->parts, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
		       number, call.answer.etag);
	return 0;
}

/* True if the object exists in its full length. */
static bool parts_arrived(const struct upload *upload, size_t n)
{
	struct s3_call call = {.s3 = upload->s3, .key = upload->key, .request = {.method = "HEAD"}};
	uint64_t size;

	return s3_call(&call, NULL) == 0 && repo_http_length(&call.answer, &size, NULL) == 0 &&
	       size == n;
}

/* Servers send status 200 before they put the parts together, so only the body reports the
 * result. A truncated body reports nothing. */
static int parts_complete(struct upload *upload, size_t n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(65536);
	struct s3_call call = {.s3 = upload->s3,
			       .key = upload->key,
			       .query = upload->query,
			       .request = {.method = "POST", .text = &answer}};
	char code[128] = "", tag[S3_TEXT_MAX];
	int rc;

	cairn_buf_adds(&upload->parts, "</CompleteMultipartUpload>");
	if (cairn_buf_failed(&upload->parts))
		return cairn_err_nomem(err, "an upload");
	call.request.body = upload->parts.data;
	call.request.body_n = upload->parts.len;
	rc = s3_call(&call, err);
	if (rc < 0 || (answer.data &&
		       s3_find_text((char *)answer.data, answer.len, "ETag", tag, sizeof(tag))))
		return rc;
	if (answer.data)
		(void)s3_find_text((char *)answer.data, answer.len, "Code", code, sizeof(code));
	if (!code[0] && parts_arrived(upload, n))
		return 0;
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "the upload was not completed: %s",
			     code[0] ? code : "the server's answer is not understood");
}

static int parts_put_all(struct upload *upload, const uint8_t *data, size_t n,
			 struct cairn_err *err)
{
	uint64_t size = upload->s3->part_size;
	unsigned number = 1;
	int rc = 0;

	if (n / size >= S3_PARTS_MAX)
		size = n / (S3_PARTS_MAX - 1) + 1;
	cairn_buf_adds(&upload->parts, "<CompleteMultipartUpload "
				       "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (size_t at = 0; rc == 0 && at < n; at += size, number++)
		rc = put_part(upload, number, data + at, n - at < size ? n - at : (size_t)size,
			      err);
	return rc < 0 ? rc : parts_complete(upload, n, err);
}

static void parts_abandon(struct upload *upload)
{
	struct s3_call call = {.s3 = upload->s3,
			       .key = upload->key,
			       .query = upload->query,
			       .request = {.method = "DELETE"}};

	s3_call(&call, NULL);
}

int s3_put_parts(struct s3 *s3, const char *key, const void *data, size_t n, struct cairn_err *err)
{
	struct upload upload = {.s3 = s3, .key = key, .parts = CAIRN_BUF_INIT((size_t)4 << 20)};
	int rc = parts_begin(&upload, err);

	if (rc == 0) {
		rc = parts_put_all(&upload, data, n, err);
		if (rc < 0)
			parts_abandon(&upload);
	}
	cairn_buf_done(&upload.parts);
	free(upload.query);
	return rc;
}
