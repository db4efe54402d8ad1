/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the files that implement repo.h. */
#ifndef CAIRN_REPO_REPO_IMPL_H
#define CAIRN_REPO_REPO_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "repo/codec.h"
#include "repo/names.h"
#include "repo/repo.h"
#include "repo/repo_config.h"
#include "repo/survey.h"
#include "repo/tree_ahead.h"

struct repo_index;
struct repo_lock;
struct repo_packer;
struct cairn_buf;

#define REPO_PACK_SIZE       ((uint64_t)16 << 20)
#define REPO_PACK_SIZE_LARGE ((uint64_t)128 << 20) /* the most that restic writes */
#define REPO_PACK_SIZE_MIN   ((uint64_t)64 << 10)
#define REPO_PACK_SIZE_MAX   ((uint64_t)512 << 20)

/* Maximum sizes of a file other than a pack, stored and plain. */
#define REPO_FILE_STORED_MAX ((size_t)512 << 20)
#define REPO_SNAPSHOT_MAX    ((size_t)16 << 20)
#define REPO_LOCK_FILE_MAX   ((size_t)64 << 10)

struct repo {
	struct repo_store *store;
	bool (*cancelled)(void); /* or NULL */
	struct repo_codec_pool codecs;
	struct repo_config config;
	struct repo_id key_name; /* of the key file that was opened */
	char *hostname;          /* of new snapshots */
	char *here;              /* this machine's name, in locks */
	char *username;
	uint64_t pack_size; /* may grow before the first blob is put */
	bool pack_size_given;
	uint64_t expected; /* bytes of the backup, at most; set as pack_size is */
	_Atomic(struct ZSTD_CCtx_s *)
		tree_context; /* of a tree writer, to be used again; or NULL */
	struct repo_index *index;
	atomic_bool index_loaded;
	pthread_mutex_t load_mutex;     /* held while the index is loaded */
	pthread_mutex_t parse_mutex;    /* held while one file of it is added: a pack's blobs are
				      * added by one thread */
	struct repo_names packs_listed; /* by repo_confirm_packs(), if it was called */
	bool has_packs_listed;
	bool packs_confirmed;            /* repo_confirm_packs() has compared them with the index */
	bool packs_whole;                /* all that the index names were in that listing */
	pthread_mutex_t doubt_mutex;     /* guards what follows */
	struct repo_names packs_doubted; /* those with blobs that could not be opened */
	char *cache_dir;                 /* local, for all repositories; or NULL */
	struct repo_names index_listed;  /* index files at the time of loading */
	struct repo_names index_known;   /* those whose blobs are in memory; parse_mutex */
	struct repo_names index_saved;   /* those that repo_cache_save() has put into a cache */
	uint32_t cache_saved;            /* entries of the index that it has */
	bool cache_used;                 /* a cache was attached */
	uint32_t cache_min;              /* REPO_CACHE_BLOBS_MIN; less in tests */
	uint64_t load_part;              /* REPO_LOAD_PART; less in tests */
	struct repo_tree_ahead tree_ahead;
	struct repo_packer *packer;
	struct repo_lock *lock; /* NULL: none */
	atomic_bool early;      /* the second check is still pending */
	atomic_bool collided;
	atomic_uint_fast64_t may_delete_ms; /* when repo_may_delete_more() last looked */
	atomic_bool damaged;                /* damage was reported */
	bool unlocked;
	struct repo_names adopted;      /* packs of interrupted writers that this one builds on */
	pthread_mutex_t settle_mutex;   /* held while waiting for that; guards what follows */
	struct repo_names early_names;  /* index files that were loaded before it */
	bool early_surveyed;            /* these are from `opened` */
	struct repo_names unsure_names; /* those that repo_check_lock() compares once more */
	struct repo_survey opened;      /* at opening, until a lock had to be waited for */
	struct repo_survey settled;     /* at the second check */
	pthread_mutex_t fail_mutex;     /* guards `failure` */
	struct cairn_err failure;
	atomic_bool failed;
	atomic_uint_fast64_t blobs_new, bytes_new, bytes_stored, blobs_known, packs_stored,
		bytes_received;
};

/* Creates a repository object without a key: its store is open, nothing was
 * read. */
int repo_new(const struct repo_options *options, struct repo **ret, struct cairn_err *err);

/* The first key that the password opens and that `fits` (NULL: any); a damaged one
 * is reported only if no other fits. An interrupted init can leave a second key:
 * the password opens it, but it does not open the config. */
int repo_find_key(struct repo *repo, const struct repo_options *options,
		  int (*fits)(struct repo *repo, struct cairn_err *err), struct cairn_err *err);

/* CAIRN_DATA_LOSS  the config is damaged, or sealed with another key */
int repo_config_read(struct repo *repo, struct repo_config *ret, struct cairn_err *err);

/* Takes the lock specified in the options, and prepares for writing under
 * it. */
int repo_start(struct repo *repo, const struct repo_options *options, struct cairn_err *err);

/* The sticky failure. repo_fail() keeps the first one and returns its
 * argument's code. */
int repo_fail(struct repo *repo, const struct cairn_err *err);
int repo_failed(struct repo *repo, struct cairn_err *err);

/* Files that hold sealed JSON. `out` gets the plain bytes, up to its maximum;
 * the name is checked against the content. */
int repo_file_load(struct repo *repo, enum repo_file kind, const struct repo_id *name,
		   struct cairn_buf *out, struct cairn_err *err);
int repo_file_save(struct repo *repo, enum repo_file kind, const void *json, size_t n,
		   struct repo_id *ret_name, struct cairn_err *err);

/* The same with repo_store_put_gated(). */
int repo_file_save_gated(struct repo *repo, enum repo_file kind, const void *json, size_t n,
			 const struct repo_store_gate *gate, struct repo_id *ret_name,
			 struct cairn_err *err);

/* Reads from the store and counts the bytes. */
int repo_read(struct repo *repo, const struct repo_id *pack, uint64_t offset, void *out, size_t n,
	      struct cairn_err *err);

/* CAIRN_CANCELLED when the caller has cancelled: checked between the steps of
 * long operations. */
int repo_go_on(const struct repo *repo, struct cairn_err *err);

/* CAIRN_PRECONDITION unless a lock is held and the index loaded. */
int repo_may_write(struct repo *repo, struct cairn_err *err);

/* CAIRN_PRECONDITION unless the exclusive lock is held; CAIRN_ABORTED when it
 * was lost. */
int repo_may_delete(struct repo *repo, struct cairn_err *err);

/* The same before each of many deletions: looks again if the last look is older than
 * REPO_LOCK_FRESH_MS. A process that was stopped meanwhile must not delete what others, to whom
 * its lock was stale, have built upon. */
int repo_may_delete_more(struct repo *repo, struct cairn_err *err);

#endif
