/* SPDX-License-Identifier: Apache-2.0 */

/* Requests of the kernel to an export, from their buffers to the answer of the image; for the
 * files that implement rbd_export_fuse.h.
 *
 * As many requests are under way as there are buffers. The buffers live as long as the process:
 * requests may be answered late.
 */
#ifndef CAIRN_POOL_RBD_EXPORT_REQUEST_H
#define CAIRN_POOL_RBD_EXPORT_REQUEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_fuse_spec;
struct rbd_api;

/* The largest read or write, and how many the kernel may have under way at once. */
#define EXPORT_DATA_MAX   (1U << 20)
#define EXPORT_BACKGROUND 64U

/* Besides those: flushes, discards and questions about the file. */
#define EXPORT_REQUESTS (EXPORT_BACKGROUND + 16U)

/* The request with its arguments is before this offset of a buffer, data to be read behind. */
#define EXPORT_HEAD_MAX 4096U

struct export_fuse;

struct export_request {
	struct export_fuse *fuse;
	struct export_request *next; /* of the free ones, or of those that ask for the size */
	char *buf;
	uint64_t unique;
	size_t length; /* bytes wanted, or written */
	bool reads;
};

struct export_fuse {
	const struct export_fuse_spec *spec;
	const struct rbd_api *api;
	uint64_t size;

	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t changed;
	struct export_request *free;
	struct export_request *asks; /* for attributes: answering may have to wait for Ceph */
	unsigned busy;
	bool stop;
	bool is_ready;
	struct export_request requests[EXPORT_REQUESTS];
};

enum export_op {
	EXPORT_READ,
	EXPORT_WRITE,
	EXPORT_ZERO,
	EXPORT_FLUSH,
};

/* A free one, which is waited for. */
struct export_request *rbd_export_take(struct export_fuse *fuse);
void rbd_export_give_back(struct export_request *request);

/* Answers and gives the request back: a negative errno, or 0 and data. */
void rbd_export_reply(struct export_request *request, int error, const void *data, size_t n);

/* Asks the image; the request is answered when the image has answered. */
void rbd_export_ask(struct export_request *request, enum export_op op, uint64_t offset, uint64_t n,
		    const char *data);

#endif
