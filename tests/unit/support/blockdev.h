/* SPDX-License-Identifier: Apache-2.0 */

/* What tests of loop devices and mounts share: a scratch directory, files and
 * filesystems in it, and taking all of it down again.
 *
 * A test program that needs root or loop devices calls blockdev_may_run() first
 * and returns 77 when it says no.
 */
#ifndef CAIRN_TESTS_UNIT_BLOCKDEV_H
#define CAIRN_TESTS_UNIT_BLOCKDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKDEV_MIB 1048576ULL

/* False, with the reason on standard error, where loop devices or mount(2) are
 * refused. */
bool blockdev_may_run(void);

/* A scratch directory; its path is valid until blockdev_done(). */
const char *blockdev_scratch(void);

/* Unmounts and detaches everything below the scratch directory and removes it. */
void blockdev_done(void);

/* DIR/name in a static ring of buffers. */
const char *blockdev_path(const char *name);

/* A sparse file DIR/name; returns its path. */
const char *blockdev_file(const char *name, uint64_t size);

/* Runs a program and fails the test if it fails. */
void blockdev_run(const char *const argv[]);
bool blockdev_run_ok(const char *const argv[]);

#define RUN(...) blockdev_run((const char *const[]){__VA_ARGS__, NULL})

/* mkfs.FS on the device (or file). */
void blockdev_mkfs(const char *fs, const char *device);

/* Mounts the device on DIR/name; returns the mount point. */
const char *blockdev_mount(const char *device, const char *name);

/* True if a file can be made and synced in `dir` within `ms`; a frozen
 * filesystem keeps the child that tries waiting, and it is then killed. */
bool blockdev_writable_within(const char *dir, unsigned ms);

#endif
