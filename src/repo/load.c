/* SPDX-License-Identifier: Apache-2.0 */

/* Loads the index, and finds packs that are in no index file. */

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/index.h"
#include "repo/index_cache.h"
#include "repo/index_file.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/packer.h"
#include "repo/repo_cache.h"
#include "repo/repo_impl.h"

/* Each thread holds an index file in memory. */
#define LOADERS_MAX 3

struct adding {
	struct repo_index *index;
	uint32_t pack;
	bool known; /* the pack was already known */
};

static int load_add_pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct adding *adding = arg;

	return repo_index_pack(adding->index, id, REPO_PACK_INDEXED, &adding->pack, &adding->known,
			       err);
}

static int load_add_lost(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	struct adding *adding = arg;

	return repo_index_pack(adding->index, id, REPO_PACK_GONE, &adding->pack, &adding->known,
			       err);
}

static int add_blob(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct adding *adding = arg;

	return repo_index_add(adding->index, adding->pack, blob, !adding->known, err);
}

/* Records that the blobs of the index file are in memory. */
static int know_file(struct repo *repo, const struct repo_id *name, struct cairn_err *err)
{
	const struct repo_named *listed = repo_names_find(&repo->index_listed, name);

	return listed ? repo_names_add(&repo->index_known, listed, err) : 0;
}

int repo_load_index_file(struct repo *repo, const struct repo_id *name, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX);
	struct adding adding = {.index = repo->index};
	const struct repo_index_visitor visitor = {
		.pack = load_add_pack, .blob = add_blob, .lost = load_add_lost, .arg = &adding};
	char hex[REPO_ID_TEXT_MAX];
	int rc = repo_file_load(repo, REPO_FILE_INDEX, name, &json, err);

	if (rc < 0)
		return rc;
	cairn_scoped_lock(&repo->parse_mutex);
	rc = repo_index_file_parse((const char *)json.data, json.len, &visitor, err);
	if (rc == 0)
		rc = know_file(repo, name, err);
	return rc < 0 ? cairn_err_wrap(err, "index/%s", repo_id_format(name, hex)) : 0;
}

struct loading {
	struct repo *repo;
	const struct repo_names *names;
};

static int load_file(void *arg, size_t i, struct cairn_err *err)
{
	struct loading *loading = arg;
	int rc = repo_go_on(loading->repo, err);

	return rc < 0 ? rc
		      : repo_load_index_file(loading->repo, &loading->names->items[i].name, err);
}

/* Remembers the index files that were loaded under an early lock: their existence is
 * checked again once the lock is certain. */
static void keep_names(struct repo *repo, struct repo_names *names)
{
	cairn_scoped_lock(&repo->settle_mutex);
	repo->early_names = *names;
	repo->early = true;
	*names = (struct repo_names){0};
}

/* A failure to load under an early lock may be caused by another process;
 * opening again without an early lock shows whether it persists. */
static int blame_others(struct repo *repo, struct cairn_err *err)
{
	struct cairn_err why = {0};

	if (repo_settle(repo, &why) < 0)
		return cairn_err_set(err, why.code, "%s", why.msg);
	repo->collided = true;
	why = *err;
	return cairn_err_set(err, CAIRN_ABORTED, "%s", why.msg);
}

static bool is_cached(const struct repo_names *cached, const struct repo_id *name)
{
	return repo_names_find(cached, name) != NULL;
}

/* The index files that the attached caches cover, sorted. */
static int cached_names(struct repo *repo, struct repo_names *ret, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < repo_index_attached(repo->index); i++) {
		size_t n;
		const struct repo_named *names =
			repo_index_cache_names(repo_index_attached_at(repo->index, i), &n);

		for (size_t k = 0; rc == 0 && k < n; k++)
			rc = repo_names_add(ret, &names[k], err);
	}
	repo_names_sort(ret);
	return rc;
}

int repo_load_index_names(struct repo *repo, const struct repo_names *names, struct cairn_err *err)
{
	struct loading loading = {.repo = repo, .names = names};
	unsigned threads = repo->store->connections;

	return cairn_parallel_each(names->n, threads < LOADERS_MAX ? threads : LOADERS_MAX,
				   load_file, &loading, err);
}

/* Loads the listed index files that are in a cache (`which` true) or in none (false). With
 * `parts`, many are put into a cache instead of memory. */
static int load_some(struct repo *repo, const struct repo_names *cached, bool which, bool parts,
		     struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < repo->index_listed.n; i++) {
		const struct repo_named *name = &repo->index_listed.items[i];

		if (is_cached(cached, &name->name) == which)
			rc = repo_names_add(&names, name, err);
	}
	if (rc == 0 && parts)
		rc = repo_load_index_parts(repo, &names, err);
	return rc < 0 ? rc : repo_load_index_names(repo, &names, err);
}

static int load_first(struct repo *repo, bool with_cache, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names cached = {0};
	int rc;

	/* A prune loads the index a second time. */
	repo_names_done(&repo->index_listed);
	repo_names_done(&repo->index_known);
	repo->early_surveyed =
		repo->early && repo_survey_use(&repo->opened, REPO_FILE_INDEX, &repo->index_listed);
	rc = repo->early_surveyed
		     ? 0
		     : repo_names_list(repo->store, REPO_FILE_INDEX, &repo->index_listed, err);
	if (rc == 0 && with_cache)
		repo_cache_attach(repo);
	if (rc == 0)
		rc = cached_names(repo, &cached, err);
	return rc < 0 ? rc : load_some(repo, &cached, false, with_cache, err);
}

/* Replaces the caches: loads the index files that they cover into memory. */
static int load_cached(struct repo *repo, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names cached = {0};
	int rc = cached_names(repo, &cached, err);

	if (rc == 0)
		rc = load_some(repo, &cached, true, false, err);
	if (rc == 0)
		repo_index_detach(repo->index);
	return rc;
}

static int load_load(struct repo *repo, bool with_cache, struct cairn_err *ret_err)
{
	struct cairn_err own = {0}, *err = ret_err ? ret_err : &own;
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	bool early = repo->early;
	int rc = 0;

	cairn_scoped_lock(&repo->load_mutex);
	if (repo->index_loaded && (with_cache || repo_index_attached(repo->index) == 0))
		return 0;
	rc = repo->index_loaded ? load_cached(repo, err) : load_first(repo, with_cache, err);
	if (rc == 0 && early && !repo->index_loaded)
		rc = repo_names_copy(&repo->index_listed, &names, err);
	if (rc < 0)
		return early && rc != CAIRN_CANCELLED ? blame_others(repo, err) : rc;
	if (early && !repo->index_loaded)
		keep_names(repo, &names);
	repo->index_loaded = true;
	return 0;
}

int repo_load_index(struct repo *repo, struct cairn_err *err)
{
	return load_load(repo, false, err);
}

int repo_load_index_cached(struct repo *repo, struct cairn_err *err)
{
	return load_load(repo, true, err);
}

/* ---- packs in no index ----------------------------------------------------- */

/* Most headers are smaller, so one request is usually enough. */
#define HEADER_GUESS 65536U

static int open_header(struct repo *repo, const uint8_t *tail, size_t n, uint64_t size,
		       size_t sealed_n, struct repo_pack_blob **ret, size_t *ret_n,
		       struct cairn_err *err)
{
	cairn_auto_free uint8_t *sealed =
		cairn_memdup(tail + n - REPO_PACK_TRAILER - sealed_n, sealed_n);
	struct repo_codec *codec;
	int rc;

	if (!sealed)
		return cairn_err_nomem(err, "a pack header");
	rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_crypt_open(repo_codec_crypt(codec), sealed, sealed_n, err);
	repo_codec_put(&repo->codecs, codec);
	if (rc < 0)
		return rc;
	return repo_pack_header_decode(sealed + REPO_IV_SIZE, sealed_n - REPO_SEAL,
				       size - REPO_PACK_TRAILER - sealed_n, ret, ret_n, err);
}

static size_t trailer_of(const uint8_t *end)
{
	return (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 |
	       (size_t)end[-1] << 24;
}

int repo_pack_parse_tail(struct repo *repo, const uint8_t *tail, size_t n, uint64_t size,
			 struct repo_pack_blob **ret, size_t *ret_n, size_t *ret_need,
			 struct cairn_err *err)
{
	size_t sealed_n = n >= REPO_PACK_TRAILER ? trailer_of(tail + n) : 0;

	*ret_need = 0;
	if (sealed_n < REPO_SEAL || sealed_n > REPO_PACK_HEADER_MAX + REPO_SEAL ||
	    sealed_n + REPO_PACK_TRAILER > size)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "no pack header");
	if (sealed_n + REPO_PACK_TRAILER > n) {
		*ret_need = sealed_n + REPO_PACK_TRAILER;
		return 0;
	}
	return open_header(repo, tail, n, size, sealed_n, ret, ret_n, err);
}

int repo_pack_read_header(struct repo *repo, const struct repo_named *pack,
			  struct repo_pack_blob **ret, size_t *ret_n, struct cairn_err *err)
{
	size_t n, need = pack->size < HEADER_GUESS ? (size_t)pack->size : HEADER_GUESS;
	int rc = 0;

	if (need == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an empty pack");
	while (rc == 0 && need > 0) {
		cairn_auto_free uint8_t *tail = cairn_alloc(need);

		n = need;
		if (!tail)
			return cairn_err_nomem(err, "a pack header");
		rc = repo_read(repo, &pack->name, pack->size - n, tail, n, err);
		if (rc == 0)
			rc = repo_pack_parse_tail(repo, tail, n, pack->size, ret, ret_n, &need,
						  err);
	}
	return rc;
}

int repo_adopt_pack(struct repo *repo, const struct repo_named *pack, uint64_t *ret_blobs,
		    struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	uint32_t number;
	size_t n = 0;
	int rc = repo_pack_read_header(repo, pack, &blobs, &n, err);

	if (rc == 0)
		rc = repo_index_pack(repo->index, &pack->name, REPO_PACK_STORED, &number, NULL,
				     err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = repo_index_add(repo->index, number, &blobs[i], false, err);
	if (rc == 0)
		rc = repo_packer_adopt(repo->packer, number, &pack->name, blobs, n, err);
	if (rc == 0)
		*ret_blobs += n;
	return rc;
}

int repo_pack_read(struct repo *repo, const struct repo_named *pack, uint8_t **ret,
		   bool *ret_intact, struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = cairn_alloc((size_t)pack->size);
	struct repo_id got;
	int rc;

	if (!data)
		return cairn_err_nomem(err, "a pack");
	rc = repo_read(repo, &pack->name, 0, data, (size_t)pack->size, err);
	if (rc < 0)
		return rc;
	if (!repo_id_of(data, (size_t)pack->size, &got))
		return cairn_err_nomem(err, "a hash");
	*ret_intact = repo_id_equal(&got, &pack->name);
	*ret = cairn_take(data);
	return 0;
}

int repo_pack_is_intact(struct repo *repo, const struct repo_named *pack, bool *ret,
			struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;

	*ret = false;
	if (pack->size == 0 || pack->size > UINT32_MAX)
		return 0;
	return repo_pack_read(repo, pack, &data, ret, err);
}
