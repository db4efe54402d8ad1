/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/lock.h"
#include "base/mem.h"
#include "repo/index.h"
#include "repo/keyfile.h"
#include "repo/lock_list.h"
#include "repo/names.h"
#include "repo/packer.h"
#include "repo/repo_cache.h"
#include "repo/repo_impl.h"
#include "repo/repo_lock.h"

/* Maximum of keys that are tried: each takes a good part of a second. */
#define KEYS_MAX 20

int repo_fail(struct repo *repo, const struct cairn_err *err)
{
	cairn_scoped_lock(&repo->fail_mutex);
	if (!repo->failed) {
		repo->failure = *err;
		repo->failed = true;
	}
	return err->code;
}

int repo_failed(struct repo *repo, struct cairn_err *err)
{
	if (!repo->failed)
		return 0;
	cairn_scoped_lock(&repo->fail_mutex);
	if (err)
		*err = repo->failure;
	return cairn_err_negative(repo->failure.code);
}

static char *host_name(void)
{
	char name[256] = "";

	gethostname(name, sizeof(name) - 1);
	return cairn_strdup(name[0] ? name : "localhost");
}

static char *user_name(void)
{
	char buf[4096];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(getuid(), &entry, buf, sizeof(buf), &found) != 0 || !found)
		return cairn_printf("%u", (unsigned)getuid());
	return cairn_strdup(found->pw_name);
}

int repo_new(const struct repo_options *options, struct repo **ret, struct cairn_err *err)
{
	struct repo *repo = cairn_calloc(1, sizeof(*repo));
	uint64_t size = options->pack_size ? options->pack_size : REPO_PACK_SIZE;
	int rc;

	if (!repo)
		return cairn_err_nomem(err, "a repository");
	pthread_mutex_init(&repo->load_mutex, NULL);
	pthread_mutex_init(&repo->parse_mutex, NULL);
	pthread_mutex_init(&repo->doubt_mutex, NULL);
	pthread_mutex_init(&repo->fail_mutex, NULL);
	pthread_mutex_init(&repo->settle_mutex, NULL);
	repo_tree_ahead_init(&repo->tree_ahead);
	repo->cancelled = options->store.cancelled;
	repo_codec_pool_init(&repo->codecs, &(struct repo_key){{0}},
			     options->level ? options->level : REPO_LEVEL_DEFAULT);
	repo->pack_size = size < REPO_PACK_SIZE_MIN   ? REPO_PACK_SIZE_MIN
			  : size > REPO_PACK_SIZE_MAX ? REPO_PACK_SIZE_MAX
						      : size;
	repo->cache_dir = options->cache_dir ? cairn_strdup(options->cache_dir) : NULL;
	repo->load_part = options->load_part ? options->load_part : REPO_LOAD_PART;
	repo->cache_min = options->cache_min ? options->cache_min : REPO_CACHE_BLOBS_MIN;
	repo->pack_size_given = options->pack_size != 0;
	repo->here = host_name();
	repo->username = user_name();
	repo->hostname = options->hostname ? cairn_strdup(options->hostname) : host_name();
	repo->index = repo_index_new();
	if (!repo->here || !repo->username || !repo->hostname || !repo->index)
		rc = cairn_err_nomem(err, "a repository");
	else if (options->password_len == 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "no password for the repository");
	else
		rc = repo_store_open(&options->store, &repo->store, err);
	if (rc < 0) {
		repo_close(repo);
		return rc;
	}
	*ret = repo;
	return 0;
}

int repo_end(struct repo *repo, struct cairn_err *err)
{
	int rc;

	if (!repo)
		return 0;
	repo_lock_give_up(repo->lock);
	repo_packer_free(repo->packer);
	rc = repo_lock_end(repo->lock, err);
	repo_store_close(repo->store);
	repo_index_free(repo->index);
	repo_codec_pool_done(&repo->codecs);
	ZSTD_freeCCtx(repo->tree_context);
	pthread_mutex_destroy(&repo->load_mutex);
	pthread_mutex_destroy(&repo->parse_mutex);
	pthread_mutex_destroy(&repo->doubt_mutex);
	pthread_mutex_destroy(&repo->fail_mutex);
	pthread_mutex_destroy(&repo->settle_mutex);
	repo_tree_ahead_done(&repo->tree_ahead);
	repo_names_done(&repo->adopted);
	repo_names_done(&repo->early_names);
	repo_names_done(&repo->unsure_names);
	repo_survey_done(&repo->opened);
	repo_survey_done(&repo->settled);
	repo_names_done(&repo->packs_listed);
	repo_names_done(&repo->packs_doubted);
	repo_names_done(&repo->index_listed);
	repo_names_done(&repo->index_known);
	repo_names_done(&repo->index_saved);
	free(repo->cache_dir);
	free(repo->here);
	free(repo->hostname);
	free(repo->username);
	free(repo);
	return rc;
}

void repo_close(struct repo *repo)
{
	(void)repo_end(repo, NULL);
}

/* ---- opening --------------------------------------------------------------- */

static int try_key(struct repo *repo, const struct repo_options *options,
		   const struct repo_id *name, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	char hex[REPO_ID_TEXT_MAX];
	struct repo_key key;
	struct repo_id got;
	size_t n;
	int rc = repo_store_get_all(repo->store, REPO_FILE_KEY, name, REPO_KEYFILE_MAX, &data, &n,
				    err);

	if (rc < 0)
		return rc;
	if (!repo_id_of(data, n, &got))
		return cairn_err_nomem(err, "a hash");
	if (!repo_id_equal(&got, name))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "key %s is damaged",
				     repo_id_format(name, hex));
	rc = repo_keyfile_decode((const char *)data, n, options->password, options->password_len,
				 &key, err);
	if (rc < 0)
		return cairn_err_wrap(err, "key %s", repo_id_format(name, hex));
	repo_codec_pool_set_key(&repo->codecs, &key);
	repo_key_clear(&key);
	repo->key_name = *name;
	return 0;
}

int repo_config_read(struct repo *repo, struct repo_config *ret, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo_codec *codec = NULL;
	size_t n;
	int rc = repo_store_get_all(repo->store, REPO_FILE_CONFIG, NULL, REPO_CONFIG_MAX, &data, &n,
				    err);

	if (rc == 0)
		rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_crypt_open(repo_codec_crypt(codec), data, n, err);
	repo_codec_put(&repo->codecs, codec);
	if (rc < 0)
		return cairn_err_wrap(err, "config");
	return repo_config_decode((const char *)data + REPO_IV_SIZE, n - REPO_SEAL, ret, err);
}

int repo_find_key(struct repo *repo, const struct repo_options *options,
		  int (*fits)(struct repo *repo, struct cairn_err *err), struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct cairn_err other = {0};
	int rc = 0;

	if (!repo_survey_use(&repo->opened, REPO_FILE_KEY, &names))
		rc = repo_names_list(repo->store, REPO_FILE_KEY, &names, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < names.n && i < KEYS_MAX; i++) {
		struct cairn_err why = {0};

		rc = try_key(repo, options, &names.items[i].name, &why);
		if (rc == 0 && fits)
			rc = fits(repo, &why);
		if (rc == 0)
			return 0;
		if (rc != CAIRN_UNAUTHENTICATED)
			other = why;
	}
	if (other.code)
		return cairn_err_set(err, other.code, "%s", other.msg);
	if (names.n == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the repository has no keys");
	if (names.n > KEYS_MAX)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "wrong password for %d of %zu keys; more are not tried",
				     KEYS_MAX, names.n);
	return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "wrong password, or no key for it");
}

/* True if the lock could not be written for a reason that still allows reading: a restore
 * must be possible without write access and from a full disk. */
static bool takes_no_lock(const struct cairn_err *why)
{
	return why->code == CAIRN_DENIED || why->sys_errno == EROFS ||
	       (why->code == CAIRN_NO_SPACE && why->sys_errno != ENOMEM);
}

static int take_lock(struct repo *repo, const struct repo_options *options, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc;

	if (options->lock == REPO_LOCK_NONE)
		return 0;
	repo->early = options->lock_early && options->lock == REPO_LOCK_SHARED;
	rc = repo_lock_take(repo, options, &repo->lock, &why);
	if (rc < 0 && options->lock_optional && options->lock == REPO_LOCK_SHARED &&
	    takes_no_lock(&why)) {
		repo->early = false;
		repo->unlocked = true;
		return 0;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

int repo_start(struct repo *repo, const struct repo_options *options, struct cairn_err *err)
{
	int rc = take_lock(repo, options, err);

	return rc == 0 && repo->lock ? repo_packer_new(repo, &repo->packer, err) : rc;
}

static int fits_config(struct repo *repo, struct cairn_err *err)
{
	return repo_config_read(repo, &repo->config, err);
}

/* False only if the store reports that the config does not exist; an error is not an absence. */
static bool has_config(struct repo *repo)
{
	uint64_t size;

	return repo_store_size(repo->store, REPO_FILE_CONFIG, NULL, &size, NULL) != CAIRN_NOT_FOUND;
}

int repo_open(const struct repo_options *options, struct repo **ret, struct cairn_err *err)
{
	static const enum repo_file needed[] = {REPO_FILE_KEY};
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	int rc = repo_new(options, &repo, err);

	if (rc < 0)
		return rc;
	rc = repo_survey_take(repo->store, needed, 1, &repo->opened, err);
	if (rc == 0)
		rc = repo_find_key(repo, options, fits_config, err);
	if ((rc == CAIRN_NOT_FOUND || rc == CAIRN_DATA_LOSS || rc == CAIRN_UNAUTHENTICATED) &&
	    !has_config(repo))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no repository");
	if (rc == 0)
		rc = repo_start(repo, options, err);
	if (rc == 0)
		*ret = cairn_take(repo);
	return rc;
}

/* ---- small things ---------------------------------------------------------- */

const char *repo_config_id(const struct repo *repo)
{
	return repo->config.id;
}

struct repo_store *repo_get_store(struct repo *repo)
{
	return repo->store;
}

int repo_go_on(const struct repo *repo, struct cairn_err *err)
{
	if (repo->cancelled && repo->cancelled())
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	return 0;
}

int repo_may_write(struct repo *repo, struct cairn_err *err)
{
	if (!repo->lock)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the repository is not locked");
	if (!repo->index_loaded)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the index is not loaded");
	return 0;
}

int repo_may_delete(struct repo *repo, struct cairn_err *err)
{
	if (!repo->lock || !repo_lock_exclusive(repo->lock))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the repository is not locked exclusively");
	return repo_lock_verify(repo->lock, NULL, err);
}

int repo_may_delete_more(struct repo *repo, struct cairn_err *err)
{
	uint64_t now = repo_lock_clock_ms();
	int rc;

	if (now - repo->may_delete_ms < REPO_LOCK_FRESH_MS)
		return 0;
	rc = repo_may_delete(repo, err);
	if (rc == 0)
		repo->may_delete_ms = now;
	return rc;
}

bool repo_unlocked(const struct repo *repo)
{
	return repo->unlocked;
}

int repo_unlock(struct repo *repo, bool all, uint64_t *ret_removed, struct cairn_err *err)
{
	return repo_lock_clear(repo, all, ret_removed, err);
}

/* Number of packs that a few requests can list. A repository of 1 TiB has 8192. */
#define PACKS_WANTED 8192U

uint64_t repo_pack_size_for(uint64_t bytes)
{
	uint64_t size = REPO_PACK_SIZE;

	while (size < REPO_PACK_SIZE_LARGE && bytes / size > PACKS_WANTED)
		size *= 2;
	return size;
}

void repo_expect(struct repo *repo, uint64_t bytes)
{
	if (!repo->pack_size_given)
		repo->pack_size = repo_pack_size_for(bytes);
	repo->expected = repo->bytes_new + bytes;
}

void repo_get_stats(struct repo *repo, struct repo_stats *ret)
{
	*ret = (struct repo_stats){
		.requests = repo->store->requests,
		.blobs_new = repo->blobs_new,
		.bytes_new = repo->bytes_new,
		.bytes_stored = repo->bytes_stored,
		.blobs_known = repo->blobs_known,
		.packs_stored = repo->packs_stored,
		.packs_total = repo_index_packs(repo->index),
		.blobs_total = repo_index_entries(repo->index),
		.bytes_received = repo->bytes_received,
	};
}
