/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/target_mark.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup/target.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define SECTOR 512U
#define BEGIN  "cairn: unfinished restore of backup "
#define END                                                                            \
	"\nWhat follows is not whole. The same 'cairn backup restore' again finishes " \
	"it.\n"

_Static_assert(sizeof(BEGIN) + POOL_RESTORING_MAX + sizeof(END) <= SECTOR, "a mark is a sector");

int backup_target_mark_read(int fd, char ret[POOL_RESTORING_MAX + 1], struct cairn_err *err)
{
	char sector[SECTOR + 1] = {0};
	ssize_t n = cairn_pread_full(fd, sector, SECTOR, 0);
	size_t len;

	if (n < 0)
		return cairn_err_sys(err, errno, "read the beginning");
	ret[0] = '\0';
	if (strncmp(sector, BEGIN, strlen(BEGIN)) != 0)
		return 0;
	len = strcspn(sector + strlen(BEGIN), "\n");
	if (len > POOL_RESTORING_MAX || strcmp(sector + strlen(BEGIN) + len, END) != 0)
		return 0;
	memcpy(ret, sector + strlen(BEGIN), len);
	ret[len] = '\0';
	return 0;
}

/* Reads the old beginning into `head` and replaces it by the mark. From then on the old
 * beginning is in memory only. */
static int put_mark(struct target *target, uint8_t *head, size_t n, struct cairn_err *err)
{
	uint8_t *mark = cairn_calloc(n, 1);
	int rc = 0;

	if (!mark)
		return cairn_err_nomem(err, "the beginning");
	snprintf((char *)mark, SECTOR, BEGIN "%s" END, target->backup);
	if (!target->unfinished && cairn_pread_full(target->fd, head, n, 0) < 0)
		rc = cairn_err_sys(err, errno, "read the beginning");
	else if (cairn_pwrite_full(target->fd, mark, n, 0) < 0 || fsync(target->fd) < 0)
		rc = cairn_err_sys(err, errno, "mark what is restored to as unfinished");
	free(mark);
	return rc;
}

int backup_target_mark_write(struct target *target, struct cairn_err *err)
{
	size_t n = target->size < TARGET_HEAD_BYTES ? (size_t)target->size : TARGET_HEAD_BYTES;
	cairn_auto_free uint8_t *head = NULL;
	int rc;

	if (n < SECTOR)
		return 0;
	head = cairn_calloc(n, 1);
	if (!head)
		return cairn_err_nomem(err, "the beginning");
	rc = put_mark(target, head, n, err);
	if (rc)
		return rc;
	target->head = cairn_take(head);
	target->head_bytes = n;
	return 0;
}

size_t backup_target_mark_take(const struct target *target, const void *data, uint64_t n,
			       uint64_t offset)
{
	size_t part;

	if (offset >= target->head_bytes)
		return 0;
	part = target->head_bytes - (size_t)offset;
	part = n < part ? (size_t)n : part;
	if (data)
		memcpy(target->head + offset, data, part);
	else
		memset(target->head + offset, 0, part);
	return part;
}

/* Writes the beginning. The sector with the mark is last, so that a crash leaves the target
 * marked. */
int backup_target_mark_replace(struct target *target, struct cairn_err *err)
{
	if (!target->head)
		return 0;
	if (cairn_pwrite_full(target->fd, target->head + SECTOR, target->head_bytes - SECTOR,
			      SECTOR) < 0 ||
	    fsync(target->fd) < 0 || cairn_pwrite_full(target->fd, target->head, SECTOR, 0) < 0 ||
	    fsync(target->fd) < 0)
		return cairn_err_sys(err, errno, "write the beginning");
	free(target->head);
	target->head = NULL;
	target->head_bytes = 0;
	return 0;
}
