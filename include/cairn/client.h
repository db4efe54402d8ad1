/* SPDX-License-Identifier: Apache-2.0 */

/* libcairn-client: which blocks of a Kubernetes volume snapshot are allocated,
 * or changed since an earlier snapshot; for backup applications.
 *
 * A client knows how to reach Kubernetes and the SnapshotMetadata service. A
 * listing is one request to it; its blocks are in ascending order and do not
 * overlap. A stream that breaks is resumed where it broke, with a new token and
 * exponential back-off, and the caller sees one sequence of blocks. Only a
 * listing that ends with 0 is complete.
 *
 *	struct cairn_client_options options = {.size = sizeof(options)};
 *	struct cairn_listing_query query = {
 *		.size = sizeof(query), .namespace_name = "db", .snapshot = "monday"};
 *
 *	if (cairn_client_new(&options, &client, &error) < 0 ||
 *	    cairn_listing_new(client, &query, &listing, &error) < 0)
 *		...
 *	while ((rc = cairn_listing_next(listing, &blocks, &n, &error)) == 1)
 *		for (size_t i = 0; i < n; i++)
 *			copy(blocks[i].offset, blocks[i].length);
 *
 * A client may be used by any number of threads at once. A listing belongs to
 * one thread at a time, but cairn_listing_cancel() and cairn_listing_info() may
 * be called from any. The library starts threads of its own, in which all
 * signals are blocked, writes nothing to standard output or error, and leaves
 * signal handlers alone.
 *
 * Every struct that the caller fills begins with its size, so that a program
 * that was built for an older library continues to work: set it, and leave
 * unused fields 0.
 */
#ifndef CAIRN_CLIENT_H
#define CAIRN_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_CLIENT_API __attribute__((visibility("default")))

/* What a function that failed returns: gRPC status codes, negated. */
enum cairn_client_code {
	CAIRN_CLIENT_OK = 0,
	CAIRN_CLIENT_CANCELLED = -1, /* cairn_listing_cancel() */
	CAIRN_CLIENT_UNKNOWN = -2,
	CAIRN_CLIENT_INVALID_ARGUMENT = -3,
	CAIRN_CLIENT_DEADLINE_EXCEEDED = -4,
	CAIRN_CLIENT_NOT_FOUND = -5, /* a snapshot, or the service of its driver */
	CAIRN_CLIENT_ALREADY_EXISTS = -6,
	CAIRN_CLIENT_PERMISSION_DENIED = -7,
	CAIRN_CLIENT_RESOURCE_EXHAUSTED = -8,
	CAIRN_CLIENT_FAILED_PRECONDITION = -9, /* no changed blocks are known: do a full backup */
	CAIRN_CLIENT_ABORTED = -10,
	CAIRN_CLIENT_OUT_OF_RANGE = -11, /* the starting offset is past the volume's end */
	CAIRN_CLIENT_UNIMPLEMENTED = -12,
	CAIRN_CLIENT_INTERNAL = -13, /* also: the service broke a rule of its protocol */
	CAIRN_CLIENT_UNAVAILABLE = -14,
	CAIRN_CLIENT_DATA_LOSS = -15,
	CAIRN_CLIENT_UNAUTHENTICATED = -16,
};

/* Filled by a function that failed; its text is one line. May always be NULL. */
struct cairn_client_error {
	int code;
	char message[480];
};

/* "NOT_FOUND"; accepts either sign. */
CAIRN_CLIENT_API const char *cairn_client_code_name(int code);

/* "0.1.0" */
CAIRN_CLIENT_API const char *cairn_client_version(void);

/* Writes a token for `audience` (NULL if it is unknown) to `token`, which has
 * room for `size` bytes including the NUL; returns 0 or a negative code. Called before
 * every stream, also in the middle of a listing, on the thread that lists. */
typedef int cairn_client_token_fn(void *arg, const char *audience, char *token, size_t size);

struct cairn_client_options {
	size_t size; /* sizeof(struct cairn_client_options) */

	/* Kubernetes. Without a file: $KUBECONFIG, ~/.kube/config, the service
	 * account of the pod. It is not used when `address` and a token are given
	 * and snapshots need no look-up. */
	const char *kubeconfig;
	const char *context; /* of the kubeconfig; NULL: its current one */

	/* The SnapshotMetadata service. Fields that are NULL are taken from the
	 * driver's SnapshotMetadataService object. */
	const char *address;     /* "host:port"; also "unix:/path", which has no TLS */
	const char *ca_file;     /* PEM: authorities that its certificate must come from */
	const char *ca_pem;      /* the same as text */
	const char *server_name; /* in its certificate, if not the host of its address */
	const char *audience;    /* of the token */
	const char *driver;      /* CSI driver; NULL: the one of the snapshot */

	/* Where tokens come from: the first of these that is set, else a
	 * TokenRequest for the service account, by default our own. */
	cairn_client_token_fn *token_fn;
	void *token_arg;
	const char *token_file; /* read again before every stream */
	const char *token;
	const char *service_account;
	const char *service_account_namespace;
	uint64_t token_expiry_seconds; /* 0 is 600 */
};

struct cairn_client;

/* Reads the settings and nothing else; strings are copied.
 *
 * CAIRN_CLIENT_INVALID_ARGUMENT  an option is wrong, or two contradict
 * CAIRN_CLIENT_NOT_FOUND         no kubeconfig, not in a pod, and no address
 */
CAIRN_CLIENT_API int cairn_client_new(const struct cairn_client_options *options,
				      struct cairn_client **ret, struct cairn_client_error *error);

/* Call it after all listings of the client were freed. Accepts NULL. */
CAIRN_CLIENT_API void cairn_client_free(struct cairn_client *client);

/* Called when a stream broke or could not be started; it is resumed after `wait_ms`. */
typedef void cairn_client_retry_fn(void *arg, const struct cairn_client_error *why,
				   uint64_t wait_ms);

struct cairn_listing_query {
	size_t size;                /* sizeof(struct cairn_listing_query) */
	const char *namespace_name; /* of the VolumeSnapshots */
	const char *snapshot;       /* VolumeSnapshot to list */

	/* The earlier snapshot: its CSI handle, which is valid even after its
	 * VolumeSnapshot was deleted, or its name. With neither, allocated blocks are
	 * listed. */
	const char *base_id;
	const char *base_snapshot;

	uint64_t starting_offset; /* list from this byte on */
	uint32_t max_results;     /* blocks a message; 0: the driver chooses */

	/* If changed blocks cannot be determined, list allocated ones instead;
	 * cairn_listing_info() reports which kind is listed. */
	bool fall_back;

	bool no_retry; /* the first failure ends the listing */

	/* Give up after this time without progress; 0 means two minutes,
	 * UINT64_MAX never. */
	uint64_t patience_ms;

	cairn_client_retry_fn *on_retry; /* on the thread that lists */
	void *on_retry_arg;
};

struct cairn_listing;

/* Checks the query; the first request is sent by the first cairn_listing_next().
 *
 * CAIRN_CLIENT_INVALID_ARGUMENT  a name is missing or a number is too large
 */
CAIRN_CLIENT_API int cairn_listing_new(struct cairn_client *client,
				       const struct cairn_listing_query *query,
				       struct cairn_listing **ret,
				       struct cairn_client_error *error);

/* Accepts NULL. */
CAIRN_CLIENT_API void cairn_listing_free(struct cairn_listing *listing);

/* A range of the volume, never empty. The last one may pass the capacity where
 * the driver reports blocks of one size. */
struct cairn_block {
	uint64_t offset;
	uint64_t length;
};

/* Waits for the next message of the listing. Returns 1 and its blocks, which are
 * borrowed until the next call and may be none; 0 when the listing is complete;
 * or a negative code. After anything but 1 every further call returns the same.
 *
 * Over the whole listing blocks ascend and do not overlap; type and capacity do
 * not change; whatever breaks this is CAIRN_CLIENT_INTERNAL. The first block may
 * begin before the starting offset, as the service may report it whole.
 */
CAIRN_CLIENT_API int cairn_listing_next(struct cairn_listing *listing,
					const struct cairn_block **ret_blocks, size_t *ret_n,
					struct cairn_client_error *error);

/* Calls `take` for every block until the end; 0 when all were taken. What `take`
 * returns other than 0 ends the listing and is returned. */
typedef int cairn_listing_take_fn(void *arg, const struct cairn_block *block);
CAIRN_CLIENT_API int cairn_listing_each(struct cairn_listing *listing, cairn_listing_take_fn *take,
					void *arg, struct cairn_client_error *error);

/* Ends the listing with CAIRN_CLIENT_CANCELLED, also while another thread waits
 * in it, unless it was complete. From any thread, not from a signal handler. */
CAIRN_CLIENT_API void cairn_listing_cancel(struct cairn_listing *listing);

enum cairn_listing_kind {
	CAIRN_LISTING_ALLOCATED = 1, /* what is not listed reads as zeros */
	CAIRN_LISTING_CHANGED = 2,   /* what is not listed is as in the base */
};

enum cairn_listing_type {
	CAIRN_LISTING_UNKNOWN = 0,
	CAIRN_LISTING_FIXED_LENGTH = 1, /* all blocks have one length */
	CAIRN_LISTING_VARIABLE_LENGTH = 2,
};

struct cairn_listing_info {
	size_t size; /* sizeof(struct cairn_listing_info): set it before the call */
	int kind;    /* enum cairn_listing_kind */
	int type;    /* enum cairn_listing_type */
	bool fell_back;
	uint64_t capacity; /* of the volume; 0 before the first message */
	uint64_t position; /* everything before it was listed: to continue, start here */
	uint64_t blocks;
	uint64_t bytes; /* sum of their lengths */
	uint64_t messages;
	uint64_t streams; /* that were started: 1, and one for each time it was resumed */
};

/* The progress of the listing, including messages that cairn_listing_next()
 * returned. May be called from any thread. */
CAIRN_CLIENT_API void cairn_listing_info(struct cairn_listing *listing,
					 struct cairn_listing_info *ret);

#ifdef __cplusplus
}
#endif

#endif
