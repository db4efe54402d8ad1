/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/aws_credentials.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

struct part {
	const char *at;
	size_t n;
};

static struct part part_trimmed(const char *at, size_t n)
{
	while (n > 0 && strchr(" \t\r", at[0])) {
		at++;
		n--;
	}
	while (n > 0 && strchr(" \t\r", at[n - 1]))
		n--;
	return (struct part){.at = at, .n = n};
}

static bool part_is(struct part part, const char *text)
{
	return part.n == strlen(text) && memcmp(part.at, text, part.n) == 0;
}

static void credentials_drop(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void repo_aws_credentials_done(struct repo_aws_credentials *credentials)
{
	credentials_drop(credentials->access_key);
	credentials_drop(credentials->secret_key);
	credentials_drop(credentials->session_token);
	*credentials = (struct repo_aws_credentials){0};
}

/* "key = value" of the profile; other keys are ignored. The last one counts. */
static int credentials_take(struct part line, struct repo_aws_credentials *found,
			    struct cairn_err *err)
{
	const char *equals = memchr(line.at, '=', line.n);
	struct part key, value;
	char **where;

	if (!equals)
		return 0;
	key = part_trimmed(line.at, (size_t)(equals - line.at));
	value = part_trimmed(equals + 1, line.n - (size_t)(equals - line.at) - 1);
	where = part_is(key, "aws_access_key_id")       ? &found->access_key
		: part_is(key, "aws_secret_access_key") ? &found->secret_key
		: part_is(key, "aws_session_token")     ? &found->session_token
							: NULL;
	if (!where || memchr(value.at, '\0', value.n))
		return 0;
	credentials_drop(*where);
	*where = cairn_strndup(value.at, value.n);
	return *where ? 0 : cairn_err_nomem(err, "credentials");
}

static bool credentials_is_section(struct part line, const char *profile)
{
	struct part name = part_trimmed(line.at + 1, line.n - 1);

	if (name.n == 0 || name.at[name.n - 1] != ']')
		return false;
	return part_is(part_trimmed(name.at, name.n - 1), profile);
}

int repo_aws_credentials_parse(const char *text, size_t n, const char *profile,
			       struct repo_aws_credentials *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials found = {0};
	const char *wanted = profile ? profile : "default";
	const char *end = text + n;
	bool inside = false;
	int rc = 0;

	for (const char *next; text < end && !rc; text = next) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct part line;

		next = newline ? newline + 1 : end;
		line = part_trimmed(text, (size_t)((newline ? newline : end) - text));
		if (line.n == 0 || line.at[0] == '#' || line.at[0] == ';')
			continue;
		if (line.at[0] == '[')
			inside = credentials_is_section(line, wanted);
		else if (inside)
			rc = credentials_take(line, &found, err);
	}
	if (!rc && (!found.access_key || !found.secret_key))
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "no keys of profile '%.64s'", wanted);
	if (rc)
		return rc;
	*ret = found;
	found = (struct repo_aws_credentials){0};
	return 0;
}

int repo_aws_credentials_read(const char *path, const char *profile,
			      struct repo_aws_credentials *ret, struct cairn_err *err)
{
	char *text = NULL;
	size_t n = 0;
	int rc = cairn_file_read(AT_FDCWD, path, REPO_AWS_CREDENTIALS_MAX, &text, &n, err);

	if (rc)
		return cairn_err_wrap(err, "credentials of AWS");
	rc = repo_aws_credentials_parse(text, n, profile, ret, err);
	explicit_bzero(text, n);
	free(text);
	return rc ? cairn_err_wrap(err, "'%s'", path) : 0;
}
