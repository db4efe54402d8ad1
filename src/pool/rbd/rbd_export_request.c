/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export_request.h"

#include <errno.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>

#include "base/lock.h"
#include "pool/rbd/rbd_export_fuse.h"
#include "pool/rbd/rbd_image.h"

/* Waits for a free one: as many are under way as there are buffers. */
struct export_request *rbd_export_take(struct export_fuse *fuse)
{
	struct export_request *request;

	cairn_scoped_lock(&fuse->mutex);
	while (!fuse->free)
		pthread_cond_wait(&fuse->changed, &fuse->mutex);
	request = fuse->free;
	fuse->free = request->next;
	fuse->busy++;
	return request;
}

void rbd_export_give_back(struct export_request *request)
{
	struct export_fuse *fuse = request->fuse;

	cairn_scoped_lock(&fuse->mutex);
	request->next = fuse->free;
	fuse->free = request;
	fuse->busy--;
	pthread_cond_broadcast(&fuse->changed);
}

/* The kernel refuses an answer only if no caller waits for it any more. */
void rbd_export_reply(struct export_request *request, int error, const void *data, size_t n)
{
	struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + (error ? 0 : n)),
				       .error = error,
				       .unique = request->unique};
	char *bytes;
	struct iovec parts[2] = {{&head, sizeof(head)}, {NULL, error ? 0 : n}};

	memcpy(&bytes, &data, sizeof(bytes)); /* writev() does not write to it */
	parts[1].iov_base = bytes;
	(void)!writev(request->fuse->spec->fd, parts, 2);
	rbd_export_give_back(request);
}

/* A client that was fenced gets ESHUTDOWN; programs expect EIO of a disk. */
static int error_of_disk(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT ? -ENOSPC : -EIO;
}

/* Called by a thread of librbd. */
static void image_answered(rbd_completion_t completion, void *arg)
{
	struct export_request *request = arg;
	const struct rbd_api *api = request->fuse->api;
	ssize_t rc = api->rbd_aio_get_return_value(completion);
	struct fuse_write_out written = {.size = (uint32_t)request->length};

	api->rbd_aio_release(completion);
	if (rc < 0)
		rbd_export_reply(request, error_of_disk((int)rc), NULL, 0);
	else if (request->reads && (size_t)rc != request->length)
		rbd_export_reply(request, -EIO, NULL, 0);
	else if (request->reads)
		rbd_export_reply(request, 0, request->buf + EXPORT_HEAD_MAX, request->length);
	else
		rbd_export_reply(request, 0, &written, request->length ? sizeof(written) : 0);
}

static int image_start(struct export_request *request, enum export_op op, uint64_t offset,
		       uint64_t n, const char *data, rbd_completion_t completion)
{
	const struct rbd_api *api = request->fuse->api;
	rbd_image_t image = request->fuse->spec->image->image;

	switch (op) {
	case EXPORT_READ:
		return api->rbd_aio_read2(image, offset, n, request->buf + EXPORT_HEAD_MAX,
					  completion, 0);
	case EXPORT_WRITE:
		return api->rbd_aio_write2(image, offset, n, data, completion, 0);
	case EXPORT_ZERO:
		return api->rbd_aio_write_zeroes(image, offset, n, completion, 0, 0);
	default:
		return api->rbd_aio_flush(image, completion);
	}
}

void rbd_export_ask(struct export_request *request, enum export_op op, uint64_t offset, uint64_t n,
		    const char *data)
{
	const struct rbd_api *api = request->fuse->api;
	rbd_completion_t completion = NULL;
	int rc = api->rbd_aio_create_completion(request, image_answered, &completion);

	request->reads = op == EXPORT_READ;
	request->length = op == EXPORT_READ || op == EXPORT_WRITE ? n : 0;
	if (rc < 0) {
		rbd_export_reply(request, -ENOMEM, NULL, 0);
		return;
	}
	rc = image_start(request, op, offset, n, data, completion);
	if (rc < 0) { /* it is not called back */
		api->rbd_aio_release(completion);
		rbd_export_reply(request, error_of_disk(rc), NULL, 0);
	}
}
