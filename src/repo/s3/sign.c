/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/s3/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "repo/id.h"

#define SCOPE_MAX 256

static void sign_hmac(const void *key, size_t key_n, const char *text, uint8_t out[32])
{
	unsigned n = 0;

	HMAC(EVP_sha256(), key, (int)key_n, (const uint8_t *)text, strlen(text), out, &n);
}

static void sign_add_hex(struct cairn_buf *out, const uint8_t *bytes)
{
	struct repo_id id;
	char hex[REPO_ID_TEXT_MAX];

	memcpy(id.bytes, bytes, sizeof(id.bytes));
	cairn_buf_adds(out, repo_id_format(&id, hex));
}

/* Adds "name:value" to `lines` and the name to `names`. A header whose value is NULL is skipped. */
static void add_header(struct cairn_buf *lines, struct cairn_buf *names, const char *name,
		       const char *value)
{
	if (!value)
		return;
	cairn_buf_addf(lines, "%s:%s\n", name, value);
	cairn_buf_addf(names, "%s%s", names->len ? ";" : "", name);
}

/* Adds the headers in ascending order of names, as the signature requires. */
static void sign_add_headers(const struct s3_credentials *credentials, const struct s3_signed *what,
			     struct cairn_buf *lines, struct cairn_buf *names)
{
	add_header(lines, names, "host", what->host);
	add_header(lines, names, "x-amz-bucket-object-lock-enabled", what->bucket_lock);
	add_header(lines, names, "x-amz-content-sha256", what->payload);
	add_header(lines, names, "x-amz-date", what->date);
	add_header(lines, names, "x-amz-object-lock-mode", what->lock_mode);
	add_header(lines, names, "x-amz-object-lock-retain-until-date", what->lock_until);
	add_header(lines, names, "x-amz-security-token", credentials->token);
	cairn_buf_addc(names, 0);
}

static void sign_canonical(const struct s3_credentials *credentials, const struct s3_signed *what,
			   struct cairn_buf *out, struct cairn_buf *names)
{
	cairn_buf_addf(out, "%s\n%s\n%s\n", what->method, what->path, what->query);
	sign_add_headers(credentials, what, out, names);
	cairn_buf_addf(out, "\n%s\n%s", cairn_buf_failed(names) ? "" : (char *)names->data,
		       what->payload);
}

/* Derives the key for a day, a region and a service. */
static void sign_derive(const struct s3_credentials *credentials, const char *date, uint8_t out[32])
{
	cairn_auto_buf struct cairn_buf secret = CAIRN_BUF_INIT(1024);
	char day[9];

	snprintf(day, sizeof(day), "%.8s", date);
	cairn_buf_addf(&secret, "AWS4%s", credentials->secret_key);
	sign_hmac(secret.data ? (const void *)secret.data : "", secret.len, day, out);
	sign_hmac(out, 32, credentials->region, out);
	sign_hmac(out, 32, "s3", out);
	sign_hmac(out, 32, "aws4_request", out);
	if (secret.data)
		OPENSSL_cleanse(secret.data, secret.len);
}

void s3_sign(const struct s3_credentials *credentials, const struct s3_signed *what,
	     struct cairn_buf *out)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(65536);
	cairn_auto_buf struct cairn_buf names = CAIRN_BUF_INIT(1024);
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(4096);
	char scope[SCOPE_MAX];
	struct repo_id hash;
	uint8_t key[32];

	snprintf(scope, sizeof(scope), "%.8s/%s/s3/aws4_request", what->date, credentials->region);
	sign_canonical(credentials, what, &request, &names);
	if (cairn_buf_failed(&request) || cairn_buf_failed(&names) ||
	    !repo_id_of(request.data, request.len, &hash)) {
		out->failed = true;
		return;
	}
	cairn_buf_addf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n", what->date, scope);
	sign_add_hex(&text, hash.bytes);
	cairn_buf_addc(&text, 0);
	if (cairn_buf_failed(&text)) {
		out->failed = true;
		return;
	}
	sign_derive(credentials, what->date, key);
	sign_hmac(key, sizeof(key), (const char *)text.data, key);
	cairn_buf_addf(out, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=",
		       credentials->access_key, scope, (char *)names.data);
	sign_add_hex(out, key);
	OPENSSL_cleanse(key, sizeof(key));
}

const char *s3_date(int64_t seconds, char out[S3_DATE_MAX])
{
	time_t when = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&when, &tm) || strftime(out, S3_DATE_MAX, "%Y%m%dT%H%M%SZ", &tm) == 0)
		snprintf(out, S3_DATE_MAX, "19700101T000000Z");
	return out;
}

void s3_encode(struct cairn_buf *out, const char *text, int path)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		    strchr("-_.~", c) || (path && c == '/')) {
			cairn_buf_addc(out, (char)c);
		} else {
			cairn_buf_addc(out, '%');
			cairn_buf_addc(out, digits[c >> 4]);
			cairn_buf_addc(out, digits[c & 15]);
		}
	}
}
