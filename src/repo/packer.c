/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/packer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread_group.h"
#include "repo/index.h"
#include "repo/index_file.h"
#include "repo/packer_pack.h"
#include "repo/repo_impl.h"

#define PACKS_STAGGERED 8U /* with fewer packs, small ones would be a large part of them */
#define PACK_PARTS      4U /* a pack of a large backup is at least such a part of a full one */

struct repo_packer {
	struct repo *repo;
	struct cairn_thread_group threads; /* at most REPO_PACKS_IN_FLIGHT_MAX */
	pthread_mutex_t mutex;             /* guards all fields below */
	pthread_cond_t work;               /* a pack is full, or the threads shall stop */
	pthread_cond_t change;             /* a pack was sent, or an index written */
	struct packer_pack *open[2];
	struct packer_list full;   /* to be sent */
	struct packer_list stored; /* to be written into an index */
	struct packer_pack *spare; /* empty, for reuse of their memory */
	unsigned in_flight;        /* full or being sent */
	unsigned opened;           /* packs of data so far, up to the number of threads */
	uint64_t pending;          /* number of blobs in `stored` */
	uint64_t indexed_ms;       /* when the last index was written */
	bool indexing;             /* a thread is writing an index */
	bool stop;
};

static int open_pack(struct repo_packer *packer, struct packer_pack **ret, struct cairn_err *err)
{
	cairn_cleanup(repo_packer_pack_freep) struct packer_pack *pack = packer->spare;
	int rc;

	if (pack) {
		packer->spare = pack->next;
	} else {
		pack = repo_packer_pack_new(packer->repo->pack_size);
		if (!pack)
			return cairn_err_nomem(err, "a pack");
	}
	rc = repo_index_pack(packer->repo->index, NULL, REPO_PACK_OPEN, &pack->number, NULL, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(pack);
	return 0;
}

static bool packer_is_full(const struct packer_pack *pack)
{
	return pack && (pack->bytes.len >= pack->limit || pack->n >= REPO_PACK_BLOBS_MAX);
}

/* ---- threads --------------------------------------------------------------- */

static int send_pack(struct repo *repo, struct packer_pack *pack, struct cairn_err *err)
{
	int rc = repo_packer_pack_seal(repo, pack, err);

	/* Until the lock is certain, another process may consider the pack unreferenced and
	 * delete it. */
	if (rc == 0)
		rc = repo_settle(repo, err);
	if (rc == 0)
		rc = repo_store_put(repo->store, REPO_FILE_PACK, pack->bytes.data, pack->bytes.len,
				    &pack->id, err);
	if (rc < 0)
		return rc;
	repo->bytes_stored += pack->bytes.len;
	repo->packs_stored++;
	repo_index_pack_set(repo->index, pack->number, &pack->id, REPO_PACK_STORED);
	return 0;
}

/* Writes one index file, with as many whole packs as fit into one. */
static int packer_write_index(struct repo *repo, struct packer_list *packs,
			      struct packer_list *done, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX);
	struct repo_id name;
	uint64_t blobs = 0;
	int rc;

	repo_index_file_begin(&json);
	while (packs->first && (blobs == 0 || blobs + packs->first->n <= REPO_INDEX_BLOBS)) {
		struct packer_pack *pack = repo_packer_list_take(packs);

		repo_index_file_pack(&json, &pack->id, pack->blobs, pack->n);
		blobs += pack->n;
		repo_packer_list_add(done, pack);
	}
	repo_index_file_end(&json);
	if (cairn_buf_failed(&json))
		return cairn_err_nomem(err, "an index");
	rc = repo_file_save(repo, REPO_FILE_INDEX, json.data, json.len, &name, err);
	if (rc < 0)
		return rc;
	for (struct packer_pack *pack = done->first; pack; pack = pack->next)
		repo_index_pack_set(repo->index, pack->number, &pack->id, REPO_PACK_INDEXED);
	return 0;
}

/* Called with the mutex held, which is released meanwhile. */
static int packer_write_indexes(struct repo_packer *packer, struct cairn_err *err)
{
	struct packer_list packs = packer->stored, done = {0};
	int rc = 0;

	packer->stored = (struct packer_list){0};
	packer->pending = 0;
	packer->indexing = true;
	packer->indexed_ms = cairn_monotonic_ns() / CAIRN_NS_PER_MS;
	pthread_mutex_unlock(&packer->mutex);
	while (rc == 0 && packs.first) {
		rc = packer_write_index(packer->repo, &packs, &done, err);
		repo_packer_list_free(&done);
	}
	/* After a failure packs without an index remain in the store; repo_adopt_packs() finds them. */
	repo_packer_list_free(&packs);
	pthread_mutex_lock(&packer->mutex);
	packer->indexing = false;
	pthread_cond_broadcast(&packer->change);
	return rc;
}

static bool index_due(const struct repo_packer *packer)
{
	uint64_t now = cairn_monotonic_ns() / CAIRN_NS_PER_MS;

	return !packer->indexing && packer->stored.first &&
	       (packer->pending >= REPO_INDEX_BLOBS ||
		now - packer->indexed_ms >= REPO_INDEX_EVERY_MS);
}

/* Reuses the memory of a sent pack. Its list of blobs is kept for the index. */
static void packer_recycle(struct repo_packer *packer, struct packer_pack *pack)
{
	struct packer_pack *spare = cairn_calloc(1, sizeof(*spare));

	if (!spare) {
		cairn_buf_done(&pack->bytes);
		return;
	}
	spare->bytes = pack->bytes;
	cairn_buf_reset(&spare->bytes);
	cairn_buf_init(&pack->bytes, UINT32_MAX);
	spare->next = packer->spare;
	packer->spare = spare;
}

static void send_next(struct repo_packer *packer)
{
	struct packer_pack *pack = repo_packer_list_take(&packer->full);
	struct cairn_err err = {0};
	int rc;

	pthread_mutex_unlock(&packer->mutex);
	rc = repo_failed(packer->repo, &err);
	if (rc == 0)
		rc = send_pack(packer->repo, pack, &err);
	if (rc < 0)
		repo_fail(packer->repo, &err);
	pthread_mutex_lock(&packer->mutex);
	packer->in_flight--;
	if (rc < 0) {
		repo_packer_pack_free(pack);
	} else {
		packer_recycle(packer, pack);
		packer->pending += pack->n;
		repo_packer_list_add(&packer->stored, pack);
	}
	if (rc == 0 && index_due(packer) && packer_write_indexes(packer, &err) < 0)
		repo_fail(packer->repo, &err);
	pthread_cond_broadcast(&packer->change);
}

static void *send_packs(void *arg)
{
	struct repo_packer *packer = arg;

	cairn_scoped_lock(&packer->mutex);
	while (true) {
		if (packer->full.first)
			send_next(packer);
		else if (packer->stop)
			return NULL;
		else
			pthread_cond_wait(&packer->work, &packer->mutex);
	}
}

/* ---- making and ending ----------------------------------------------------- */

static int start_threads(struct repo_packer *packer, struct cairn_err *err)
{
	unsigned want = packer->repo->store->connections;

	want = want > REPO_PACKS_IN_FLIGHT_MAX ? REPO_PACKS_IN_FLIGHT_MAX : want;
	if (cairn_thread_group_start(&packer->threads, want ? want : 1, send_packs, packer) == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "the threads that send packs cannot be started");
	return 0;
}

int repo_packer_new(struct repo *repo, struct repo_packer **ret, struct cairn_err *err)
{
	struct repo_packer *packer = cairn_calloc(1, sizeof(*packer));
	int rc;

	if (!packer)
		return cairn_err_nomem(err, "packs");
	packer->repo = repo;
	packer->indexed_ms = cairn_monotonic_ns() / CAIRN_NS_PER_MS;
	pthread_mutex_init(&packer->mutex, NULL);
	pthread_cond_init(&packer->work, NULL);
	pthread_cond_init(&packer->change, NULL);
	rc = start_threads(packer, err);
	if (rc < 0) {
		repo_packer_free(packer);
		return rc;
	}
	*ret = packer;
	return 0;
}

void repo_packer_free(struct repo_packer *packer)
{
	if (!packer)
		return;
	pthread_mutex_lock(&packer->mutex);
	packer->stop = true;
	pthread_cond_broadcast(&packer->work);
	pthread_mutex_unlock(&packer->mutex);
	cairn_thread_group_join(&packer->threads);
	repo_packer_pack_free(packer->open[0]);
	repo_packer_pack_free(packer->open[1]);
	repo_packer_list_free(&packer->full);
	repo_packer_list_free(&packer->stored);
	while (packer->spare) {
		struct packer_pack *pack = packer->spare;

		packer->spare = pack->next;
		repo_packer_pack_free(pack);
	}
	pthread_cond_destroy(&packer->work);
	pthread_cond_destroy(&packer->change);
	pthread_mutex_destroy(&packer->mutex);
	free(packer);
}

/* ---- appending ------------------------------------------------------------- */

static void send_open(struct repo_packer *packer, enum repo_blob_type type)
{
	repo_packer_list_add(&packer->full, packer->open[type]);
	packer->open[type] = NULL;
	packer->in_flight++;
	pthread_cond_signal(&packer->work);
}

/* The first packs of a large backup have different sizes: connections that begin together would
 * end together, too, and leave the line idle until the server has answered. The last ones are
 * smaller, so that all connections have something to send until the end. A directory has no
 * line to fill, and fewer threads. */
static size_t packer_limit(struct repo_packer *packer, enum repo_blob_type type)
{
	const struct repo *repo = packer->repo;
	size_t n = packer->threads.n, limit = repo->pack_size;
	uint64_t put = repo->bytes_new, rest = repo->expected > put ? repo->expected - put : 0;

	if (type != REPO_BLOB_DATA || n < REPO_PACKS_IN_FLIGHT_MAX ||
	    repo->expected / PACKS_STAGGERED < limit)
		return limit;
	if (packer->opened < n)
		return limit / n * ++packer->opened;
	if (rest / n >= limit)
		return limit;
	return rest / n > limit / PACK_PARTS ? (size_t)(rest / n) : limit / PACK_PARTS;
}

/* Waits until the open pack of the type has room. Opens one if there is none. */
static int packer_wait_for_room(struct repo_packer *packer, enum repo_blob_type type,
				struct cairn_err *err)
{
	int rc;

	while ((rc = repo_failed(packer->repo, err)) == 0 && packer_is_full(packer->open[type])) {
		if (packer->in_flight < packer->threads.n)
			send_open(packer, type);
		else
			pthread_cond_wait(&packer->change, &packer->mutex);
	}
	if (rc == 0 && !packer->open[type]) {
		rc = open_pack(packer, &packer->open[type], err);
		if (rc == 0)
			packer->open[type]->limit = packer_limit(packer, type);
	}
	return rc;
}

/* Called with the mutex held. */
static int append_one(struct repo_packer *packer, enum repo_blob_type type,
		      const struct repo_sealed *sealed, const uint8_t *bytes, struct cairn_err *err)
{
	int rc = packer_wait_for_room(packer, type, err);
	struct repo_pack_blob blob = {.id = sealed->id,
				      .length = (uint32_t)sealed->n,
				      .plain = sealed->plain,
				      .type = (uint8_t)type};
	struct packer_pack *pack;

	if (rc < 0)
		return rc;
	pack = packer->open[type];
	blob.offset = (uint32_t)pack->bytes.len;
	cairn_buf_add(&pack->bytes, bytes, sealed->n);
	if (cairn_buf_failed(&pack->bytes) || repo_packer_pack_add_blob(pack, &blob) < 0)
		return cairn_err_nomem(err, "a pack");
	repo_index_settle(packer->repo->index, sealed->entry, pack->number, blob.offset,
			  blob.length, sealed->plain);
	if (packer_is_full(pack) && packer->in_flight < packer->threads.n)
		send_open(packer, type);
	return 0;
}

int repo_packer_append(struct repo_packer *packer, enum repo_blob_type type,
		       const struct repo_sealed *blobs, size_t n, const uint8_t *bytes,
		       struct cairn_err *err)
{
	cairn_scoped_lock(&packer->mutex);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = append_one(packer, type, &blobs[i], bytes, err);
		bytes += blobs[i].n;
	}
	return rc;
}

int repo_packer_adopt(struct repo_packer *packer, uint32_t number, const struct repo_id *id,
		      const struct repo_pack_blob *blobs, size_t n, struct cairn_err *err)
{
	cairn_cleanup(repo_packer_pack_freep) struct packer_pack *pack =
		cairn_calloc(1, sizeof(*pack));

	if (!pack)
		return cairn_err_nomem(err, "a pack");
	pack->number = number;
	pack->id = *id;
	pack->n = pack->cap = n;
	pack->blobs = cairn_memdup(blobs, n * sizeof(*blobs));
	if (!pack->blobs)
		return cairn_err_nomem(err, "a pack");
	cairn_scoped_lock(&packer->mutex);
	packer->pending += n;
	repo_packer_list_add(&packer->stored, cairn_take(pack));
	return 0;
}

/* Sends both open packs, full or not. */
static int send_rest(struct repo_packer *packer, struct cairn_err *err)
{
	int rc = 0;

	for (int type = 0; rc == 0 && type < 2; type++) {
		while (packer->open[type] && packer->in_flight >= packer->threads.n &&
		       (rc = repo_failed(packer->repo, err)) == 0)
			pthread_cond_wait(&packer->change, &packer->mutex);
		if (rc == 0 && packer->open[type])
			send_open(packer, (enum repo_blob_type)type);
	}
	return rc;
}

int repo_packer_flush(struct repo_packer *packer, struct cairn_err *err)
{
	int settled = repo_settle(packer->repo, err);

	if (settled < 0)
		return settled;
	cairn_scoped_lock(&packer->mutex);
	int rc = send_rest(packer, err);

	while (packer->in_flight > 0 || packer->indexing)
		pthread_cond_wait(&packer->change, &packer->mutex);
	if (rc == 0)
		rc = repo_failed(packer->repo, err);
	if (rc == 0 && packer->stored.first) {
		rc = packer_write_indexes(packer, err);
		if (rc < 0 && err)
			repo_fail(packer->repo, err);
	}
	return rc;
}
