/* SPDX-License-Identifier: Apache-2.0 */

/* A block device or a regular file that a source reads. */
#ifndef CAIRN_BACKUP_DEVICE_FILE_H
#define CAIRN_BACKUP_DEVICE_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct store_reader;

struct device_file {
	int fd;
	bool block; /* a block device */
	uint64_t size;
};

/* `flags` are added to those of open(2).
 *
 * CAIRN_INVALID  neither a device nor a regular file
 */
int backup_device_file_open(const char *path, int flags, struct device_file *ret,
			    struct cairn_err *err);

/* The file must outlive the reader. */
int backup_device_file_reader(const struct device_file *file, struct store_reader **ret,
			      struct cairn_err *err);

#endif
