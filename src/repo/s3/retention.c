/* SPDX-License-Identifier: Apache-2.0 */

/* Object lock: until when an object cannot be deleted. */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/s3/s3_impl.h"
#include "repo/s3/xml.h"

const char *s3_until(int64_t seconds, char out[REPO_INSTANT_TEXT_MAX])
{
	return repo_instant_format(seconds * (int64_t)CAIRN_NS_PER_SEC, out);
}

int s3_protect(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
	       int64_t until, struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_free char *key = s3_key_of(s3, kind, name);
	cairn_auto_free char *body = NULL;
	char date[REPO_INSTANT_TEXT_MAX];
	struct s3_call call = {.s3 = s3,
			       .key = key,
			       .query = "retention=",
			       .md5 = true,
			       .request = {.method = "PUT"}};

	body = cairn_printf("<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
			    "<Mode>" S3_LOCK_MODE "</Mode>"
			    "<RetainUntilDate>%s</RetainUntilDate></Retention>",
			    s3_until(until, date));
	if (!key || !body)
		return cairn_err_nomem(err, "a request");
	call.request.body = body;
	call.request.body_n = strlen(body);
	return s3_call(&call, err);
}

int s3_protected_until(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t *ret, struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(65536);
	cairn_auto_free char *key = s3_key_of(s3, kind, name);
	struct s3_call call = {.s3 = s3,
			       .key = key,
			       .query = "retention=",
			       .request = {.method = "GET", .text = &answer}};
	struct cairn_err why = {0};
	char text[REPO_INSTANT_TEXT_MAX], mode[32];
	int64_t ns;
	int rc;

	if (!key)
		return cairn_err_nomem(err, "a request");
	rc = s3_call(&call, &why);
	/* AWS reports this with 404, others with 400. */
	if (rc < 0 && strstr(call.answer.why, "NoSuchObjectLockConfiguration")) {
		*ret = 0;
		return 0;
	}
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (!answer.data ||
	    !s3_find_text((char *)answer.data, answer.len, "RetainUntilDate", text, sizeof(text)) ||
	    !repo_instant_parse(text, strlen(text), &ns))
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the server does not report until when it is protected");
	/* In mode GOVERNANCE some accounts may delete the object all the same. */
	if (!s3_find_text((char *)answer.data, answer.len, "Mode", mode, sizeof(mode)) ||
	    strcmp(mode, S3_LOCK_MODE) != 0)
		ns = 0;
	*ret = ns / (int64_t)CAIRN_NS_PER_SEC;
	return 0;
}
