/* SPDX-License-Identifier: Apache-2.0 */

/* Creates a repository. The config is written last: without it there is no
 * repository.
 *
 * Several processes may try at the same time, on stores without an atomic "create
 * if missing". So a repository is created under the exclusive lock, which
 * excludes others also when their locks are sealed with another key, and the
 * config is read back.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "repo/keys.h"
#include "repo/names.h"
#include "repo/repo.h"
#include "repo/repo_impl.h"
#include "repo/repo_lock.h"

#define LOCK_WAIT_MIN_MS ((uint64_t)15000) /* another init takes a second */
#define LOCK_PAUSE_MS    250U

CAIRN_DEFINE_CLEANUP(struct repo_lock, repo_lock_release);

/* Never compressed: restic would refuse it. */
static int write_config(struct repo *repo, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_CONFIG_MAX);
	uint8_t sealed[512];
	struct repo_codec *codec;
	int rc = repo_codec_get(&repo->codecs, &codec, err);

	if (rc < 0)
		return rc;
	repo_config_encode(&repo->config, &json);
	if (cairn_buf_failed(&json) || json.len + REPO_SEAL > sizeof(sealed))
		rc = cairn_err_nomem(err, "the config");
	else
		rc = repo_crypt_seal(repo_codec_crypt(codec), json.data, json.len, sealed, err);
	repo_codec_put(&repo->codecs, codec);
	return rc < 0 ? rc : repo_store_put_config(repo->store, sealed, json.len + REPO_SEAL, err);
}

static int init_refuse_existing(struct repo *repo, struct cairn_err *err)
{
	uint64_t size;
	int rc = repo_store_size(repo->store, REPO_FILE_CONFIG, NULL, &size, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "there is a repository already");
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* A key without a config was left by an interrupted init, or the config was lost:
 * the key is then reused, so that data sealed with it can be read. */
static int init_make_key(struct repo *repo, const struct repo_options *options, bool *ret_made,
			 struct repo_id *ret_name, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	int rc = repo_names_list(repo->store, REPO_FILE_KEY, &names, err);

	if (rc == 0 && names.n > 0) {
		rc = repo_find_key(repo, options, NULL, err);
		if (rc == CAIRN_UNAUTHENTICATED)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "there is no config, but keys of another password");
		return rc;
	}
	if (rc == 0)
		rc = repo_key_random(&repo->codecs.key, err);
	if (rc == 0)
		rc = repo_key_write(repo, options->password, options->password_len, options->kdf_n,
				    ret_name, err);
	*ret_made = rc == 0;
	if (rc == 0)
		repo->key_name = *ret_name;
	return rc;
}

/* A store without conditional writes lets a second writer replace the config. */
static int confirm_config(struct repo *repo, struct cairn_err *err)
{
	struct repo_config stored;
	int rc = repo_config_read(repo, &stored, err);

	if (rc == CAIRN_DATA_LOSS || (rc == 0 && strcmp(stored.id, repo->config.id) != 0))
		return cairn_err_set(err, CAIRN_EXISTS,
				     "another process made the repository at the same time");
	return rc;
}

/* Takes the exclusive lock, unless another process has created the repository
 * meanwhile. Processes that collide withdraw and retry at random times. */
static int lock_alone(struct repo *repo, const struct repo_options *options, struct repo_lock **ret,
		      struct cairn_err *err)
{
	struct repo_options alone = *options;
	uint64_t start = cairn_monotonic_ns(), wait_ms = options->lock_wait_ms;

	alone.lock = REPO_LOCK_EXCLUSIVE;
	alone.lock_wait_ms = 0;
	wait_ms = wait_ms < LOCK_WAIT_MIN_MS ? LOCK_WAIT_MIN_MS : wait_ms;
	for (;;) {
		int rc = repo_lock_take(repo, &alone, ret, err);
		uint32_t random = 0;

		if (rc != CAIRN_ABORTED || cairn_monotonic_ns() - start > wait_ms * CAIRN_NS_PER_MS)
			return rc;
		rc = init_refuse_existing(repo, err);
		rc = rc < 0 ? rc : repo_go_on(repo, err);
		rc = rc < 0 ? rc : cairn_random_bytes(&random, sizeof(random), err);
		if (rc < 0)
			return rc;
		cairn_sleep_ms(LOCK_PAUSE_MS + random % LOCK_PAUSE_MS);
	}
}

static int make_config(struct repo *repo, const struct repo_options *options, struct cairn_err *err)
{
	cairn_cleanup(repo_lock_releasep) struct repo_lock *lock = NULL;
	int rc = lock_alone(repo, options, &lock, err);

	if (rc == 0)
		rc = init_refuse_existing(repo, err);
	if (rc == 0)
		rc = repo_config_random(&repo->config, err);
	if (rc == 0)
		rc = repo_lock_verify(lock, NULL, err);
	if (rc == 0)
		rc = write_config(repo, err);
	return rc < 0 ? rc : confirm_config(repo, err);
}

/* Removes the key of an init that lost the race: restic would try it on the config and
 * report damage. A third init may have reused the key, so it is removed only if the config,
 * which is final, is sealed with another one. */
static void withdraw_key(struct repo *repo, const struct repo_id *name)
{
	struct repo_config config;
	struct cairn_err why = {0};

	if (repo_config_read(repo, &config, &why) == CAIRN_DATA_LOSS)
		(void)repo_store_remove(repo->store, REPO_FILE_KEY, name, NULL);
}

int repo_init(const struct repo_options *options, struct repo **ret, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct repo_id key;
	bool made = false;
	int rc = repo_new(options, &repo, err);

	if (rc == 0)
		rc = init_refuse_existing(repo, err);
	if (rc == 0)
		rc = repo_store_create(repo->store, err);
	if (rc == 0)
		rc = init_make_key(repo, options, &made, &key, err);
	if (rc == 0)
		rc = make_config(repo, options, err);
	if (rc == CAIRN_EXISTS && made)
		withdraw_key(repo, &key);
	if (rc == 0)
		rc = repo_start(repo, options, err);
	if (rc == 0)
		*ret = cairn_take(repo);
	return rc;
}
