/* SPDX-License-Identifier: Apache-2.0 */

/* The storage of a repository's files.
 *
 * A store keeps whole, immutable files of six kinds under names: 64 hex digits,
 * the hash of their content (the config has no name). It does not interpret
 * them. One `const struct repo_store_ops` for each kind of place (dir/, s3/,
 * rest/), one `struct repo_store` for each open one; places embed the instance
 * as their first member. Callers use the repo_store_*() wrappers.
 *
 * Guarantees:
 *   - a name is absent or refers to a complete file, also after kill -9 and power
 *     loss; a put is durable when it returns;
 *   - putting the same name again, with the same bytes, succeeds;
 *   - removing a missing file succeeds;
 *   - a listing may miss files that are put while it runs, but no earlier ones.
 *
 * Every operation may be called from any number of threads. Transient errors (a
 * lost connection, 5xx, throttling) are retried with back-off inside the store
 * and are returned as CAIRN_UNAVAILABLE if they persist.
 */
#ifndef CAIRN_REPO_STORE_H
#define CAIRN_REPO_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"

struct cairn_err;
struct repo_limits;
struct repo_object_ops;
struct repo_store;

enum repo_file {
	REPO_FILE_CONFIG,
	REPO_FILE_KEY,
	REPO_FILE_LOCK,
	REPO_FILE_SNAPSHOT,
	REPO_FILE_INDEX,
	REPO_FILE_PACK,
};
#define REPO_FILE_KINDS 6

/* "config", "keys", "locks", "snapshots", "index", "data" */
const char *repo_file_name(enum repo_file kind);

/* Called for each file of a listing, in any order. A negative return ends the
 * listing and is returned. */
typedef int repo_store_list_fn(void *arg, const struct repo_id *name, uint64_t size,
			       struct cairn_err *err);

/* The same for files of several kinds. */
typedef int repo_store_list_rest_fn(void *arg, enum repo_file kind, const struct repo_id *name,
				    uint64_t size, struct cairn_err *err);

struct repo_swept {
	uint64_t files, bytes;
};

/* Decides at the last moment whether a file that is ready may become visible: a negative
 * return is the result of the put, and the file does not exist. */
struct repo_store_gate {
	int (*may_publish)(void *arg, struct cairn_err *err);
	void *arg;
	struct repo_id *name; /* or NULL; set before the gate is asked: a put that fails
			       * may have been carried out */
};

struct repo_store_ops {
	const char *name;

	/* Required. `name` is NULL for the config only. */
	void (*close)(struct repo_store *store);
	/* Creates the place itself: directories, or whatever the server needs.
	 * Succeeds if it exists. */
	int (*create)(struct repo_store *store, struct cairn_err *err);
	/* `id_of_data` is the SHA-256 of the bytes, which S3 signs. */
	int (*put)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   const void *data, size_t n, const struct repo_id *id_of_data,
		   struct cairn_err *err);
	/* Exactly `n` bytes from `offset`; CAIRN_RANGE when the file is shorter,
	 * CAIRN_NOT_FOUND when there is none. */
	int (*get)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t offset, void *out, size_t n, struct cairn_err *err);
	int (*size)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    uint64_t *ret_size, struct cairn_err *err);
	int (*remove)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      struct cairn_err *err);
	int (*list)(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn,
		    void *arg, struct cairn_err *err);

	/* Optional: a put that asks the gate after the bytes were stored and before the name is
	 * visible. A sweep between these two steps must fail the put with CAIRN_ABORTED. */
	int (*put_gated)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
			 const void *data, size_t n, const struct repo_store_gate *gate,
			 struct cairn_err *err);

	/* Optional: removes files that dead writers left half-written, and counts
	 * them. No other process may be writing. */
	int (*sweep)(struct repo_store *store, struct repo_swept *swept, struct cairn_err *err);

	/* Optional: bytes that can still be written. */
	int (*space)(struct repo_store *store, uint64_t *ret_free, struct cairn_err *err);

	/* Optional: a reserve is space that only operations that free space may
	 * use. */
	int (*reserve_keep)(struct repo_store *store, struct cairn_err *err);
	int (*reserve_release)(struct repo_store *store, bool *ret_released, struct cairn_err *err);

	/* Optional: reads a whole file with one request; see
	 * repo_store_get_all(). */
	int (*get_all)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       size_t max, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err);

	/* Optional: see repo_store_list_rest(). */
	int (*list_rest)(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
			 bool *ret_at_once, struct cairn_err *err);

	/* Optional: see repo_store_protect(). */
	int (*protect)(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t until, struct cairn_err *err);
	int (*protected_until)(struct repo_store *store, enum repo_file kind,
			       const struct repo_id *name, int64_t *ret, struct cairn_err *err);

	/* Optional: see repo/repo_objects.h. */
	const struct repo_object_ops *objects;
};

struct repo_store {
	const struct repo_store_ops *ops;
	unsigned connections; /* number of concurrent operations that it supports well */
	/* Requests so far, as S3 would count them: a listing is one for each 1000 names. */
	atomic_uint_fast64_t requests;
	/* The server answered that there is no directory of snapshots, which may mean that there
	 * are none, or that it is not where it should be. */
	atomic_bool no_snapshots;
};

enum repo_s3_style {
	REPO_S3_AUTO,    /* path style, but virtual hosts at amazonaws.com */
	REPO_S3_PATH,    /* https://host/bucket/key */
	REPO_S3_VIRTUAL, /* https://bucket.host/key */
};

/* Location and options; strings are copied by repo_store_open(). */
struct repo_store_options {
	/* "/dir", "local:/dir", "s3:https://host[:port]/bucket[/prefix]",
	 * "s3:host/bucket", "rest:https://[user:password@]host[:port]/path" */
	const char *location;
	const char *ca_file; /* PEM to trust instead of the system's; NULL for none */
	const char *ca_pem;  /* the same as text, which takes precedence; NULL for none */

	/* S3 */
	const char *access_key;
	const char *secret_key;
	const char *session_token; /* or NULL */
	const char *region;        /* NULL: us-east-1 */
	enum repo_s3_style s3_style;
	uint64_t part_size; /* of multipart uploads; 0: 64 MiB */
	uint64_t lock_days; /* days for which new files except locks cannot be deleted; 0: no
			     * protection */

	/* REST server, if the location does not name them */
	const char *user;
	const char *password;

	unsigned connections; /* 0: 8, or 2 for a directory */
	uint64_t retry_ms;    /* how long a failing request is retried; 0: 15 minutes */
	uint64_t stall_ms;    /* timeout of a request without progress; 0: 60 s */
	/* True when the caller has cancelled; may be NULL. A failed request is then not
	 * retried, and returns CAIRN_CANCELLED. From any thread. */
	bool (*cancelled)(void);
	struct repo_limits *limits; /* in bytes per second; owned by the caller, NULL: none */
};

/* Fills fields that are NULL from the environment: AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION,
 * RESTIC_REST_USERNAME, RESTIC_REST_PASSWORD, RESTIC_CACERT. The strings belong
 * to the environment. */
void repo_store_options_from_environment(struct repo_store_options *options);

/* The location without passwords, for messages; owned by the caller. NULL when
 * memory is short. */
char *repo_store_location_shown(const char *location);

/* Opens the store without checking that it holds a repository.
 *
 * CAIRN_INVALID  the location is not understood, or keys for it are missing
 */
int repo_store_open(const struct repo_store_options *options, struct repo_store **ret,
		    struct cairn_err *err);

/* Accepts NULL. */
void repo_store_close(struct repo_store *store);
CAIRN_DEFINE_CLEANUP(struct repo_store, repo_store_close);

int repo_store_create(struct repo_store *store, struct cairn_err *err);

/* Stores the bytes under their hash, which is returned. */
int repo_store_put(struct repo_store *store, enum repo_file kind, const void *data, size_t n,
		   struct repo_id *ret_name, struct cairn_err *err);

/* The same, if the gate allows it. Some stores can only ask the gate before the whole put.
 *
 * CAIRN_ABORTED  another process swept the store meanwhile
 */
int repo_store_put_gated(struct repo_store *store, enum repo_file kind, const void *data, size_t n,
			 const struct repo_store_gate *gate, struct repo_id *ret_name,
			 struct cairn_err *err);

/* CAIRN_EXISTS  it exists with other bytes; not every store can detect this */
int repo_store_put_config(struct repo_store *store, const void *data, size_t n,
			  struct cairn_err *err);

int repo_store_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t offset, void *out, size_t n, struct cairn_err *err);

/* A whole file of at most `max` bytes; owned by the caller. Its hash is not
 * compared with its name.
 *
 * CAIRN_RANGE  it is larger
 */
int repo_store_get_all(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       size_t max, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err);

/* True when the file can be read and holds exactly these bytes. */
bool repo_store_holds(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      const void *data, size_t n);

int repo_store_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    uint64_t *ret_size, struct cairn_err *err);
int repo_store_remove(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      struct cairn_err *err);
int repo_store_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn,
		    void *arg, struct cairn_err *err);

/* Lists keys, locks, snapshots and index files together, where that takes fewer requests than
 * listings of each. *ret_at_once is true if locks are not older in the answer than index files: one
 * answer had all of them, or the locks were listed first.
 *
 * CAIRN_UNIMPLEMENTED  the store cannot, or other files are between them
 */
int repo_store_list_rest(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
			 bool *ret_at_once, struct cairn_err *err);

/* Protects a file from deletion by any user until a time in seconds since 1970.
 *
 * CAIRN_DENIED         it is already protected for longer, or permission is missing
 * CAIRN_UNIMPLEMENTED  not supported by the store
 */
int repo_store_protect(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       int64_t until, struct cairn_err *err);

/* Until when the file is protected; 0: not protected. */
int repo_store_protected_until(struct repo_store *store, enum repo_file kind,
			       const struct repo_id *name, int64_t *ret, struct cairn_err *err);

/* Removes half-written files; for the holder of the exclusive lock. Does nothing
 * for a store whose server keeps none. */
int repo_store_sweep(struct repo_store *store, struct repo_swept *ret, struct cairn_err *err);

/* Bytes that can still be written; UINT64_MAX when unknown. */
uint64_t repo_store_space(struct repo_store *store);

/* Creates the reserve if it does not exist, or is not complete. Where an earlier one was released
 * and there is less space now, the reserve is made as large as possible.
 *
 * CAIRN_NO_SPACE  there is no reserve now, or a smaller one
 */
int repo_store_reserve_keep(struct repo_store *store, struct cairn_err *err);

/* Frees the reserve; false when there is none. For taking the exclusive lock and the
 * operations under it: on a full disk nothing could be deleted otherwise. */
bool repo_store_reserve_release(struct repo_store *store);

#endif
