/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/send.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/btrfs.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "pool/btrfs/btrfs_stream.h"
#include "pool/btrfs/subvolume.h"
#include "pool/store/store.h"

#define PIPE_SIZE    (1 << 20)
#define READ_SIZE    (64U << 10)
#define RANGES_FIRST 256U

#define CANCEL_LOOK_MS 100

/* The kernel writes the stream from within the ioctl, so a second thread runs
 * the ioctl while this one reads. */
struct sender {
	pthread_t thread;
	int target_fd;
	int pipe_fd; /* the writing end; closed by the thread */
	uint64_t parent;
	int sys_errno;
};

struct ranges {
	struct block_extent *list;
	size_t n, room;
	uint64_t limit;
};

static void *sender_main(void *arg)
{
	struct sender *sender = arg;
	struct btrfs_ioctl_send_args args = {
		.send_fd = sender->pipe_fd,
		.parent_root = sender->parent,
		.flags = BTRFS_SEND_FLAG_NO_FILE_DATA,
	};

	if (ioctl(sender->target_fd, BTRFS_IOC_SEND, &args) < 0)
		sender->sys_errno = errno;
	cairn_closep(&sender->pipe_fd);
	return NULL;
}

/* The reader may stop early, and then the kernel raises SIGPIPE in the thread:
 * it is started with every signal blocked. */
static int sender_start(struct sender *sender, struct cairn_err *err)
{
	int rc = cairn_thread_start(&sender->thread, NULL, NULL, sender_main, sender);

	return rc ? cairn_err_sys(err, rc, "start a thread") : 0;
}

static int ranges_add(void *arg, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	struct ranges *r = arg;
	struct block_extent *last = r->list && r->n > 0 ? &r->list[r->n - 1] : NULL;

	if (offset >= r->limit)
		return 0;
	if (length > r->limit - offset)
		length = r->limit - offset;
	if (last && block_extent_end(last) == offset) {
		last->length += length;
		return 0;
	}
	if (r->n == SEND_RANGES_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "more than %u ranges", SEND_RANGES_MAX);
	if (!r->list || r->n == r->room) {
		size_t room = r->room ? r->room * 2 : RANGES_FIRST;
		struct block_extent *list = cairn_realloc_array(r->list, room, sizeof(*list));

		if (!list)
			return cairn_err_nomem(err, "changed ranges");
		r->list = list;
		r->room = room;
	}
	r->list[r->n++] = (struct block_extent){.offset = offset, .length = length};
	return 0;
}

static int send_by_offset(const void *a, const void *b)
{
	uint64_t x = ((const struct block_extent *)a)->offset;
	uint64_t y = ((const struct block_extent *)b)->offset;

	return x < y ? -1 : x > y;
}

/* Sorts the ranges and merges those that overlap or touch. */
static void ranges_normalise(struct ranges *r)
{
	size_t n = 0;

	if (r->n > 1)
		qsort(r->list, r->n, sizeof(r->list[0]), send_by_offset);
	for (size_t i = 0; i < r->n; i++) {
		struct block_extent *last = n > 0 ? &r->list[n - 1] : NULL;
		uint64_t end = block_extent_end(&r->list[i]);

		if (last && r->list[i].offset <= block_extent_end(last)) {
			if (end > block_extent_end(last))
				last->length = end - last->offset;
		} else {
			r->list[n++] = r->list[i];
		}
	}
	r->n = n;
}

static bool send_cancelled(const struct store_progress *progress)
{
	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

static int read_stream(int fd, struct stream *stream, const struct store_progress *progress,
		       struct cairn_err *err)
{
	cairn_auto_free uint8_t *buf = cairn_alloc(READ_SIZE);

	if (!buf)
		return cairn_err_nomem(err, "send stream");
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		ssize_t got;
		int rc;

		/* The kernel may compare for a long time before it writes. */
		rc = poll(&wait, 1, CANCEL_LOOK_MS);
		if (send_cancelled(progress))
			return cairn_err_set(err, CAIRN_CANCELLED, "comparison cancelled");
		if (rc == 0)
			continue;
		got = read(fd, buf, READ_SIZE);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cairn_err_sys(err, errno, "read the send stream");
		if (got == 0)
			return 0;
		rc = btrfs_stream_feed(stream, buf, (size_t)got, err);
		if (rc)
			return rc;
	}
}

/* Runs the ioctl and the reader in parallel until both are done. */
static int send_run(struct sender *sender, int read_fd, struct stream *stream,
		    const struct store_progress *progress, struct cairn_err *err)
{
	int rc = sender_start(sender, err);

	if (rc) {
		cairn_closep(&sender->pipe_fd);
		cairn_closep(&read_fd);
		return rc;
	}
	rc = read_stream(read_fd, stream, progress, err);
	cairn_closep(&read_fd); /* first: it ends a sender that still writes */
	pthread_join(sender->thread, NULL);
	if (rc)
		return rc;
	if (sender->sys_errno)
		return cairn_err_sys(err, sender->sys_errno, "send");
	if (!btrfs_stream_ended(stream))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the send stream ends early");
	return 0;
}

int btrfs_send_changes(const struct send_spec *spec, struct block_extent **ret_ranges,
		       size_t *ret_n, struct cairn_err *err)
{
	struct ranges ranges = {.limit = spec->target_size};
	struct stream_sink sink = {.range = ranges_add, .arg = &ranges};
	cairn_cleanup(btrfs_stream_freep) struct stream *stream = NULL;
	struct sender sender = {.target_fd = spec->target_fd};
	struct subvolume_info base;
	int pipe_fds[2], rc;

	rc = btrfs_subvolume_info_get(spec->base_fd, &base, err);
	rc = rc ? rc : btrfs_stream_new(spec->path, sink, &stream, err);
	if (rc)
		return rc;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "make a pipe");
	(void)fcntl(pipe_fds[1], F_SETPIPE_SZ, PIPE_SIZE); /* only for speed */
	sender.pipe_fd = pipe_fds[1];
	sender.parent = base.id;
	rc = send_run(&sender, pipe_fds[0], stream, spec->progress, err);
	if (rc) {
		free(ranges.list);
		return rc;
	}
	ranges_normalise(&ranges);
	*ret_ranges = ranges.list;
	*ret_n = ranges.n;
	return 0;
}
