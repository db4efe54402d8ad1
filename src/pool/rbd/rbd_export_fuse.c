/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/rbd/rbd_export_request.h"
#include "pool/rbd/rbd_image.h"

#define READERS 2U

#define FILE_BLOCK 4096U

/* Newer than the headers of Debian 12. */
#define NOTIFY_RESEND    7
#define HAS_RESEND_FLAG2 (1U << (39 - 32))

int rbd_export_mount(int fd, const char *file, bool read_only, struct cairn_err *err)
{
	unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | (read_only ? MS_RDONLY : 0);
	char options[128];

	snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0,max_read=%u",
		 fd, EXPORT_DATA_MAX);
	if (mount("cairn", file, "fuse.cairn", flags, options) < 0)
		return cairn_err_sys(err, errno, "mount '%s'", file);
	return 0;
}

/* ---- operations of the protocol ------------------------------------------------- */

/* The argument of a request, with zeros for what an older kernel does not send. */
#define ARGUMENT(type, request, got)                                               \
	__extension__({                                                            \
		type argument_ = {0};                                              \
		size_t have_ = (got) - sizeof(struct fuse_in_header);              \
		memcpy(&argument_, (request)->buf + sizeof(struct fuse_in_header), \
		       have_ < sizeof(type) ? have_ : sizeof(type));               \
		argument_;                                                         \
	})

static void become_ready(struct export_fuse *fuse)
{
	if (!fuse->is_ready && fuse->spec->ready)
		fuse->spec->ready(fuse->spec->arg);
	fuse->is_ready = true;
}

static void op_init(struct export_request *request, size_t got)
{
	struct export_fuse *fuse = request->fuse;
	struct fuse_init_in in = ARGUMENT(struct fuse_init_in, request, got);
	uint32_t want =
		FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES | FUSE_INIT_EXT;
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in.max_readahead,
		.flags = in.flags & want,
		.flags2 = in.flags & FUSE_INIT_EXT ? in.flags2 & HAS_RESEND_FLAG2 : 0,
		.max_background = EXPORT_BACKGROUND,
		.congestion_threshold = EXPORT_BACKGROUND,
		.max_write = EXPORT_DATA_MAX,
		.max_pages = EXPORT_DATA_MAX / FILE_BLOCK,
		.time_gran = 1,
	};

	if (in.major != FUSE_KERNEL_VERSION) {
		rbd_export_reply(request, -EPROTO, NULL, 0);
		return;
	}
	fuse->spec->state->resend = out.flags2 != 0;
	fuse->spec->state->begun = true;
	rbd_export_reply(request, 0, &out, sizeof(out));
	become_ready(fuse);
}

static void op_open(struct export_request *request, size_t got)
{
	struct fuse_open_in in = ARGUMENT(struct fuse_open_in, request, got);
	struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES};

	if (request->fuse->spec->read_only && (in.flags & O_ACCMODE) != O_RDONLY)
		rbd_export_reply(request, -EROFS, NULL, 0);
	else
		rbd_export_reply(request, 0, &out, sizeof(out));
}

static void op_read(struct export_request *request, size_t got)
{
	struct fuse_read_in in = ARGUMENT(struct fuse_read_in, request, got);
	uint64_t size = __atomic_load_n(&request->fuse->size, __ATOMIC_ACQUIRE);
	uint64_t n = in.offset >= size            ? 0
		     : size - in.offset < in.size ? size - in.offset
						  : in.size;

	if (in.size > EXPORT_DATA_MAX)
		rbd_export_reply(request, -EINVAL, NULL, 0);
	else if (n == 0)
		rbd_export_reply(request, 0, NULL, 0);
	else
		rbd_export_ask(request, EXPORT_READ, in.offset, n, NULL);
}

static bool is_inside(const struct export_fuse *fuse, uint64_t offset, uint64_t n)
{
	uint64_t size = __atomic_load_n(&fuse->size, __ATOMIC_ACQUIRE);

	return offset <= size && n <= size - offset;
}

static void op_write(struct export_request *request, size_t got)
{
	struct fuse_write_in in = ARGUMENT(struct fuse_write_in, request, got);
	const size_t head = sizeof(struct fuse_in_header) + sizeof(in);

	if (request->fuse->spec->read_only)
		rbd_export_reply(request, -EROFS, NULL, 0);
	else if (got < head || got - head < in.size || in.size == 0)
		rbd_export_reply(request, -EINVAL, NULL, 0);
	else if (!is_inside(request->fuse, in.offset, in.size))
		rbd_export_reply(request, -ENOSPC, NULL, 0);
	else
		rbd_export_ask(request, EXPORT_WRITE, in.offset, in.size, request->buf + head);
}

/* A hole and a range of zeros are the same to an image: it reads as zeros, and objects that
 * are covered whole are removed. */
static void op_fallocate(struct export_request *request, size_t got)
{
	struct fuse_fallocate_in in = ARGUMENT(struct fuse_fallocate_in, request, got);
	uint32_t kind = in.mode & ~(uint32_t)FALLOC_FL_KEEP_SIZE;

	if (request->fuse->spec->read_only)
		rbd_export_reply(request, -EROFS, NULL, 0);
	else if (kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE)
		rbd_export_reply(request, -EOPNOTSUPP, NULL, 0);
	else if (in.length == 0 || !is_inside(request->fuse, in.offset, in.length))
		rbd_export_reply(request, -EINVAL, NULL, 0);
	else
		rbd_export_ask(request, EXPORT_ZERO, in.offset, in.length, NULL);
}

static void op_statfs(struct export_request *request)
{
	struct fuse_statfs_out out = {
		.st = {.bsize = FILE_BLOCK, .frsize = FILE_BLOCK, .namelen = 255}};

	rbd_export_reply(request, 0, &out, sizeof(out));
}

/* Left to attributes_thread(): a reader must not wait for Ceph. */
static void op_getattr(struct export_request *request)
{
	struct export_fuse *fuse = request->fuse;

	cairn_scoped_lock(&fuse->mutex);
	request->next = fuse->asks;
	fuse->asks = request;
	pthread_cond_broadcast(&fuse->changed);
}

static void dispatch(struct export_request *request, size_t got)
{
	struct fuse_in_header head;

	memcpy(&head, request->buf, sizeof(head));
	request->unique = head.unique;
	switch (head.opcode) {
	case FUSE_INIT:
		op_init(request, got);
		return;
	case FUSE_GETATTR:
		op_getattr(request);
		return;
	case FUSE_OPEN:
		op_open(request, got);
		return;
	case FUSE_READ:
		op_read(request, got);
		return;
	case FUSE_WRITE:
		op_write(request, got);
		return;
	case FUSE_FALLOCATE:
		op_fallocate(request, got);
		return;
	case FUSE_FSYNC:
	case FUSE_FLUSH:
		rbd_export_ask(request, EXPORT_FLUSH, 0, 0, NULL);
		return;
	case FUSE_STATFS:
		op_statfs(request);
		return;
	case FUSE_RELEASE:
	case FUSE_DESTROY:
		rbd_export_reply(request, 0, NULL, 0);
		return;
	/* These have no answer. An interrupted request is completed as usual. */
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		rbd_export_give_back(request);
		return;
	default:
		rbd_export_reply(request, -ENOSYS, NULL, 0);
	}
}

/* ---- threads ------------------------------------------------------------------ */

static void answer_attributes(struct export_request *request)
{
	struct export_fuse *fuse = request->fuse;
	uint64_t size = 0;
	int rc = fuse->api->rbd_get_size(fuse->spec->image->image, &size);
	struct fuse_attr_out out = {
		.attr = {.ino = FUSE_ROOT_ID, .nlink = 1, .blksize = FILE_BLOCK}};

	if (rc < 0) {
		rbd_export_reply(request, -EIO, NULL, 0);
		return;
	}
	__atomic_store_n(&fuse->size, size, __ATOMIC_RELEASE);
	out.attr.mode = S_IFREG | (fuse->spec->read_only ? 0400 : 0600);
	out.attr.size = size;
	out.attr.blocks = size / 512;
	rbd_export_reply(request, 0, &out, sizeof(out));
}

static void *attributes_thread(void *arg)
{
	struct export_fuse *fuse = arg;

	for (;;) {
		struct export_request *request;

		pthread_mutex_lock(&fuse->mutex);
		while (!fuse->asks && !fuse->stop)
			pthread_cond_wait(&fuse->changed, &fuse->mutex);
		request = fuse->asks;
		fuse->asks = request ? request->next : NULL;
		pthread_mutex_unlock(&fuse->mutex);
		if (!request)
			return NULL;
		answer_attributes(request);
	}
}

/* Ends when the file is unmounted. */
static void *reader_thread(void *arg)
{
	struct export_fuse *fuse = arg;

	for (;;) {
		struct export_request *request = rbd_export_take(fuse);
		ssize_t got = read(fuse->spec->fd, request->buf, EXPORT_HEAD_MAX + EXPORT_DATA_MAX);

		if (got >= (ssize_t)sizeof(struct fuse_in_header)) {
			dispatch(request, (size_t)got);
			continue;
		}
		got = got < 0 ? -errno : -EIO;
		rbd_export_give_back(request);
		/* ENOENT: the request was interrupted before it was read. */
		if (got != -EINTR && got != -EAGAIN && got != -ENOENT)
			return NULL;
	}
}

static int make_requests(struct export_fuse *fuse, struct cairn_err *err)
{
	for (size_t i = 0; i < EXPORT_REQUESTS; i++) {
		struct export_request *request = &fuse->requests[i];

		request->fuse = fuse;
		request->buf = mmap(NULL, EXPORT_HEAD_MAX + EXPORT_DATA_MAX, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (request->buf == MAP_FAILED)
			return cairn_err_nomem(err, "buffers of the export");
		request->next = fuse->free;
		fuse->free = request;
	}
	return 0;
}

/* Makes the kernel send again what the server before this one had read and not answered. In a
 * message without `unique`, `error` is the kind of the notification. */
static void ask_again(const struct export_fuse *fuse)
{
	struct fuse_out_header head = {.len = sizeof(head), .error = NOTIFY_RESEND};

	(void)!write(fuse->spec->fd, &head, sizeof(head));
}

/* The threads' buffers live as long as the process: requests may be answered late. */
static int serve(struct export_fuse *fuse, struct cairn_err *err)
{
	pthread_t readers[READERS], attributes;
	unsigned n = 0;

	if (pthread_create(&attributes, NULL, attributes_thread, fuse) != 0)
		return cairn_err_sys(err, EAGAIN, "thread of the export");
	if (fuse->spec->state->begun) {
		ask_again(fuse);
		become_ready(fuse);
	}
	while (n < READERS && pthread_create(&readers[n], NULL, reader_thread, fuse) == 0)
		n++;
	for (unsigned i = 0; i < n; i++)
		pthread_join(readers[i], NULL);
	pthread_mutex_lock(&fuse->mutex);
	while (fuse->busy > 0)
		pthread_cond_wait(&fuse->changed, &fuse->mutex);
	fuse->stop = true;
	pthread_cond_broadcast(&fuse->changed);
	pthread_mutex_unlock(&fuse->mutex);
	pthread_join(attributes, NULL);
	return n == 0 ? cairn_err_sys(err, EAGAIN, "threads of the export") : 0;
}

int rbd_export_serve(const struct export_fuse_spec *spec, struct cairn_err *err)
{
	struct export_fuse *fuse = cairn_calloc(1, sizeof(*fuse));
	int rc;

	if (!fuse)
		return cairn_err_nomem(err, "export");
	fuse->spec = spec;
	fuse->api = spec->image->api;
	pthread_mutex_init(&fuse->mutex, NULL);
	pthread_cond_init(&fuse->changed, NULL);
	rc = fuse->api->rbd_get_size(spec->image->image, &fuse->size);
	rc = rc < 0 ? rbd_api_err(err, rc, "size of image '%s'", spec->image->name)
		    : make_requests(fuse, err);
	return rc ? rc : serve(fuse, err);
}
