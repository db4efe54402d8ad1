/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backup/password.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "repo/aws_credentials.h"
#include "repo/id.h"
#include "repo/protect.h"
#include "repo/repo_limiter.h"

#define LARGE_BYTES  (1 << 20)
#define PACK_MIN_MIB 4 /* the limits of restic */
#define PACK_MAX_MIB 128

static const char *backup_repository_variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int find_location(const struct cmd_repository *repository, const char **ret,
			 struct cairn_err *err)
{
	const char *location = repository->location;

	if (!location)
		location = backup_repository_variable("CAIRN_REPOSITORY");
	if (!location)
		location = backup_repository_variable("RESTIC_REPOSITORY");
	if (!location)
		return cairn_err_set(err, CAIRN_INVALID,
				     "which repository? give --repository or CAIRN_REPOSITORY");
	*ret = location;
	return 0;
}

static struct password_spec password_spec_of(const struct cmd_repository *repository,
					     enum role_password which)
{
	bool from = which == ROLE_PASSWORD_FROM;

	return (struct password_spec){
		.file = repository->password_file,
		.command = repository->password_command,
		.variable = from ? "RESTIC_FROM_PASSWORD" : "RESTIC_PASSWORD",
		.file_variable = from ? "RESTIC_FROM_PASSWORD_FILE" : "RESTIC_PASSWORD_FILE",
		.command_variable =
			from ? "RESTIC_FROM_PASSWORD_COMMAND" : "RESTIC_PASSWORD_COMMAND",
		.prompt = from ? "password of the repository to copy from: "
			       : "password of the repository: ",
		.twice = which == ROLE_PASSWORD_NEW,
	};
}

static int open_with(struct repo_options *options, const char *password, struct repo **ret,
		     struct cairn_err *err)
{
	options->password = password;
	options->password_len = strlen(password);
	return repo_open(options, ret, err);
}

static int init_with(struct repo_options *options, const char *password, struct repo **ret,
		     struct cairn_err *err)
{
	options->password = password;
	options->password_len = strlen(password);
	return repo_init(options, ret, err);
}

/* Another process may make the repository between the two calls. */
static int open_or_make(struct repo_options *options, const char *password, struct repo **ret,
			struct cairn_err *err)
{
	int rc = open_with(options, password, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = init_with(options, password, ret, err);
	if (!rc) {
		repo_close(*ret); /* its lock is exclusive */
		*ret = NULL;
	}
	return rc && rc != CAIRN_EXISTS ? rc : open_with(options, password, ret, err);
}

/* Opens with the password. If that fails, tries it with the trailing line end of the
 * environment variable, which was cut off. */
static int open_or_init(struct repo_options *options, const struct password_spec *spec,
			const struct role_open *how, struct repo **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_password_freep) char *password = NULL;
	const char *uncut = backup_password_uncut(spec);
	struct cairn_err why = {0};
	int rc = backup_password_get(spec, &password, err);

	if (rc)
		return rc;
	if (how->init)
		return init_with(options, password, ret, err);
	if (how->init_missing)
		return open_or_make(options, password, ret, err);
	rc = open_with(options, password, ret, &why);
	if (how->ret_absent)
		*how->ret_absent = rc == CAIRN_NOT_FOUND;
	if (rc == CAIRN_UNAUTHENTICATED && uncut && open_with(options, uncut, ret, NULL) == 0)
		return 0;
	if (rc && err)
		*err = why;
	return rc;
}

static int find_style(enum repo_s3_style *ret, struct cairn_err *err)
{
	static const char *const styles[] = {
		[REPO_S3_AUTO] = "auto", [REPO_S3_PATH] = "path", [REPO_S3_VIRTUAL] = "virtual"};
	const char *wanted = backup_repository_variable("CAIRN_S3_STYLE");

	*ret = REPO_S3_AUTO;
	if (!wanted)
		return 0;
	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++)
		if (strcmp(wanted, styles[i]) == 0) {
			*ret = (enum repo_s3_style)i;
			return 0;
		}
	return cairn_err_set(err, CAIRN_INVALID, "CAIRN_S3_STYLE is auto, path or virtual");
}

/* Parses restic's variable, in MiB. */
static int find_pack_size(uint64_t *ret, struct cairn_err *err)
{
	const char *text = backup_repository_variable("RESTIC_PACK_SIZE");
	uint64_t size = 0;
	int rc = text ? cairn_parse_u64(text, &size, err) : 0;

	if (rc || (text && (size < PACK_MIN_MIB || size > PACK_MAX_MIB)))
		return cairn_err_set(err, CAIRN_INVALID, "RESTIC_PACK_SIZE is %d to %d, in MiB",
				     PACK_MIN_MIB, PACK_MAX_MIB);
	*ret = size << 20;
	return 0;
}

static bool backup_repository_interrupted(void)
{
	return cmd_interrupted() != 0;
}

/* $XDG_CACHE_HOME/cairn or ~/.cache/cairn; NULL if neither is set. The caller frees it. */
static char *cache_dir(void)
{
	const char *cache = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");

	if (cache && *cache == '/')
		return cairn_printf("%s/cairn", cache);
	return home && *home == '/' ? cairn_printf("%s/.cache/cairn", home) : NULL;
}

/* One for the process: the repositories of a copy share the line. */
static struct repo_limits *limits_of(const struct cmd_repository *repository)
{
	static struct repo_limits limits;
	static bool made;

	if (!made && (repository->limit_upload || repository->limit_download)) {
		repo_limiter_init(&limits.upload, repository->limit_upload);
		repo_limiter_init(&limits.download, repository->limit_download);
		made = true;
	}
	return made ? &limits : NULL;
}

/* Keys of S3 from the file that AWS programs share. */
static int find_keys(struct repo_store_options *options, struct repo_aws_credentials *ret,
		     struct cairn_err *err)
{
	const char *path = backup_repository_variable("AWS_SHARED_CREDENTIALS_FILE");
	int rc;

	if (!path || options->access_key || strncmp(options->location, "s3:", 3) != 0)
		return 0;
	rc = repo_aws_credentials_read(path, backup_repository_variable("AWS_PROFILE"), ret, err);
	if (rc)
		return rc;
	options->access_key = ret->access_key;
	options->secret_key = ret->secret_key;
	options->session_token = ret->session_token;
	return 0;
}

int role_repo_open(const struct cmd_repository *repository, const struct role_open *how,
		   struct repo **ret, struct cairn_err *err)
{
	struct password_spec spec = password_spec_of(repository, how->password);
	cairn_auto_free char *cache = cache_dir();
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials keys = {0};
	struct repo_options options = {
		.store = {.ca_file = repository->ca_file,
			  .connections = (unsigned)repository->connections,
			  .retry_ms = repository->retry_ms,
			  .lock_days = repository->object_lock,
			  .cancelled = backup_repository_interrupted,
			  .limits = limits_of(repository)},
		.lock = how->lock,
		.lock_wait_ms = cmd_options.lock_wait_ms,
		.lock_early = how->early,
		.lock_optional = how->reads,
		.level = how->level,
		.cache_dir = cache,
	};
	int rc = find_location(repository, &options.store.location, err);

	if (!rc && repository->object_lock > REPO_PROTECT_DAYS_MAX)
		rc = cairn_err_set(err, CAIRN_INVALID, "--object-lock is at most %u days",
				   REPO_PROTECT_DAYS_MAX);
	if (!rc)
		rc = find_style(&options.store.s3_style, err);
	if (!rc)
		rc = find_pack_size(&options.pack_size, err);
	if (rc)
		return rc;
	/* Packs, trees and lists are allocated and freed by the megabyte. With mmap() they
	 * are returned to the system at once, which reduces the peak by a third. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	/* restic's `unlock` sends SIGHUP to the holders of locks, to see whether they live. */
	signal(SIGHUP, SIG_IGN);
	repo_store_options_from_environment(&options.store);
	rc = find_keys(&options.store, &keys, err);
	if (!rc)
		rc = open_or_init(&options, &spec, how, ret, err);
	if (rc && rc != CAIRN_CANCELLED && err) {
		cairn_auto_free char *shown = repo_store_location_shown(options.store.location);

		cairn_err_wrap(err, "repository '%s'", shown ? shown : "");
	}
	if (!rc && repo_unlocked(*ret))
		cmd_note("the repository cannot be written to: it is read without a lock");
	return rc;
}

void role_repo_close(struct repo **repo)
{
	struct cairn_err why = {0};

	if (repo_end(*repo, &why) < 0)
		cmd_note(
			"the reserve, which a prune needs on a full disk, could not be made again: "
			"%s; free some space of that disk",
			why.msg);
	*repo = NULL;
}

const char *role_short_id(const struct repo_id *id, char out[ROLE_SHORT_MAX])
{
	char text[REPO_ID_TEXT_MAX];

	repo_id_format(id, text);
	memcpy(out, text, ROLE_SHORT_MAX - 1);
	out[ROLE_SHORT_MAX - 1] = '\0';
	return out;
}
