/* SPDX-License-Identifier: Apache-2.0 */

/* The credentials file that AWS programs share (~/.aws/credentials), which is also the form of
 * Velero's secrets. Parsing is pure. */
#ifndef CAIRN_REPO_AWS_CREDENTIALS_H
#define CAIRN_REPO_AWS_CREDENTIALS_H

#include <stddef.h>

struct cairn_err;

/* Limits a file that somebody else wrote. */
#define REPO_AWS_CREDENTIALS_MAX (64U << 10)

/* The caller owns the texts; NULL where the file has none. */
struct repo_aws_credentials {
	char *access_key;
	char *secret_key;
	char *session_token;
};

/* Clears the memory; also a cleanup function. */
void repo_aws_credentials_done(struct repo_aws_credentials *credentials);

/* The keys of a profile; `profile` NULL is "default".
 *
 * CAIRN_NOT_FOUND  no such profile, or it has no keys
 */
int repo_aws_credentials_parse(const char *text, size_t n, const char *profile,
			       struct repo_aws_credentials *ret, struct cairn_err *err);

/* Of a file.
 *
 * CAIRN_NOT_FOUND  also: there is no such file
 * CAIRN_RANGE      larger than REPO_AWS_CREDENTIALS_MAX
 */
int repo_aws_credentials_read(const char *path, const char *profile,
			      struct repo_aws_credentials *ret, struct cairn_err *err);

#endif
