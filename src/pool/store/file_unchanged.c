/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/file_unchanged.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

/* How long to wait until a file's last change is older than the filesystem's time,
 * which FAT counts in steps of two seconds; and how many changes in that time are too
 * many. */
#define SETTLE_MAX_NS  (3 * CAIRN_NS_PER_SEC)
#define SETTLE_TURN_MS 10
#define SETTLE_CHANGES 20

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)CAIRN_NS_PER_SEC + t.tv_nsec;
}

/* The change time that a change would set now, from the filesystem that holds
 * `scratch`: its clock and resolution matter, not ours. */
static int filesystem_time(int scratch, int64_t *ret, struct cairn_err *err)
{
	struct stat st;

	if (futimens(scratch, NULL) < 0 || fstat(scratch, &st) < 0)
		return cairn_err_sys(err, errno, "time of the filesystem");
	*ret = ns_of(st.st_ctim);
	return 0;
}

/* Waits until a change would set another time than the file has now. A time in the
 * future differs as well; *ret_now is the filesystem's time. */
static int stat_settled(int fd, int scratch, struct stat *st, int64_t *ret_now,
			struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns();
	int64_t last = 0;
	int changes = -1;

	for (;;) {
		int rc;

		rc = filesystem_time(scratch, ret_now, err);
		if (rc)
			return rc;
		if (fstat(fd, st) < 0)
			return cairn_err_sys(err, errno, "times of a volume");
		if (ns_of(st->st_ctim) != *ret_now)
			return 0;
		changes += changes < 0 || ns_of(st->st_ctim) != last;
		last = ns_of(st->st_ctim);
		if (changes == SETTLE_CHANGES || cairn_monotonic_ns() - start > SETTLE_MAX_NS)
			return cairn_err_set(err, CAIRN_ABORTED, "it is being written");
		cairn_sleep_ms(SETTLE_TURN_MS);
	}
}

int pool_file_unchanged_begin(struct still *still, int fd, int scratch, struct cairn_err *err)
{
	struct stat st;
	int64_t now = 0;
	int rc;

	/* Stores through a mapping are noticed once per write-back. */
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync a volume");
	rc = stat_settled(fd, scratch, &st, &now, err);
	if (rc)
		return rc;
	*still = (struct still){.fd = fd,
				.scratch = scratch,
				.size = (uint64_t)st.st_size,
				.modified_ns = ns_of(st.st_mtim),
				.changed_ns = ns_of(st.st_ctim),
				.start_ns = now};
	return 0;
}

/* A change sets the change time to the filesystem's time, between `start_ns` and `end`.
 * So an equal time proves that nothing changed, unless it is in that range. */
int pool_file_unchanged_end(const struct still *still, bool *ret_changed, struct cairn_err *err)
{
	struct stat st;
	int64_t end = 0;
	int rc;

	if (fsync(still->fd) < 0 || fstat(still->fd, &st) < 0)
		return cairn_err_sys(err, errno, "times of a volume");
	rc = filesystem_time(still->scratch, &end, err);
	if (rc)
		return rc;
	*ret_changed = still->size != (uint64_t)st.st_size ||
		       still->modified_ns != ns_of(st.st_mtim) ||
		       still->changed_ns != ns_of(st.st_ctim) ||
		       (still->changed_ns >= still->start_ns && still->changed_ns <= end);
	return 0;
}
