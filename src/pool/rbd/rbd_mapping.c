/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_mapping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/process.h"

#define TEXT_MAX 4096U
#define SPEC_MAX 512U

/* Of modules.dep, some 700 KB on a distribution's kernel. */
#define MODULES_MAX (16U << 20)

/* A device that was mapped appears in sysfs at once; udev makes its node. */
#define NODE_WAIT_MS 5000U
#define NODE_POLL_MS 20U

/* The text of a small file without its newline; "" if it cannot be read. */
static void read_attribute(char out[TEXT_MAX], const char *path)
{
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : cairn_read_full(fd, out, TEXT_MAX - 1);

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

/* ---- what the host has ---------------------------------------------------------- */

static bool is_executable(const char *program)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	for (const char *at = path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"; *at;) {
		size_t n = strcspn(at, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)n, at, program);
		if (n > 0 && access(file, X_OK) == 0)
			return true;
		at += n + (at[n] == ':');
	}
	return false;
}

/* Whether a list of modules of the running kernel names the module. */
static bool is_listed(const char *root, const char *list, const char *module)
{
	cairn_auto_free char *text = NULL;
	char path[PATH_MAX];
	struct utsname name;
	size_t n = 0;

	if (uname(&name) < 0)
		return false;
	snprintf(path, sizeof(path), "%s/lib/modules/%s/%s", root, name.release, list);
	if (cairn_file_read(AT_FDCWD, path, MODULES_MAX, &text, &n, NULL) != 0)
		return false;
	return strstr(text, module) != NULL;
}

/* In the kernel, or a module that mapping loads. */
static bool kernel_has(const char *root, const char *sysfs, const char *module)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", root, sysfs);
	return access(path, F_OK) == 0 || is_listed(root, "modules.dep", module) ||
	       is_listed(root, "modules.builtin", module);
}

static int require_krbd(const char *root, struct cairn_err *err)
{
	if (!kernel_has(root, "/sys/bus/rbd", "/drivers/block/rbd.ko"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this kernel has no krbd (module 'rbd', /sys/bus/rbd)");
	if (!is_executable("rbd"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "krbd needs the program 'rbd' (package ceph-common)");
	return 0;
}

static int require_nbd(const char *root, struct cairn_err *err)
{
	if (!kernel_has(root, "/sys/block/nbd0", "/drivers/block/nbd.ko"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this kernel has no nbd (module 'nbd', /sys/block/nbd0)");
	if (!is_executable("rbd-nbd"))
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "nbd needs the program 'rbd-nbd' (package rbd-nbd)");
	return 0;
}

int rbd_mapping_choose(const char *root, enum rbd_device wanted, enum rbd_device *ret,
		       struct cairn_err *err)
{
	int rc = 0;

	if (wanted == RBD_DEVICE_KRBD)
		rc = require_krbd(root, err);
	else if (wanted == RBD_DEVICE_NBD)
		rc = require_nbd(root, err);
	else if (wanted == RBD_DEVICE_AUTO && require_krbd(root, NULL) == 0)
		wanted = RBD_DEVICE_KRBD;
	else if (wanted == RBD_DEVICE_AUTO)
		wanted = require_nbd(root, NULL) == 0 ? RBD_DEVICE_NBD : RBD_DEVICE_EXPORT;
	if (!rc)
		*ret = wanted;
	return rc;
}

enum rbd_device rbd_mapping_kind(const char *device)
{
	if (strncmp(device, "/dev/rbd", 8) == 0)
		return RBD_DEVICE_KRBD;
	return strncmp(device, "/dev/nbd", 8) == 0 ? RBD_DEVICE_NBD : RBD_DEVICE_EXPORT;
}

/* ---- finding -------------------------------------------------------------------- */

static void mapping_spec(const struct rbd_mapping *mapping, char spec[SPEC_MAX])
{
	const struct rbd_address *address = mapping->address;

	snprintf(spec, SPEC_MAX, "%s/%s%s%s", address->pool, address->namespace,
		 address->namespace[0] ? "/" : "", mapping->image);
}

static bool attribute_is(const struct rbd_mapping *mapping, const char *id, const char *attribute,
			 const char *value)
{
	char path[PATH_MAX], text[TEXT_MAX];

	snprintf(path, sizeof(path), "%s/sys/bus/rbd/devices/%s/%s", mapping->root, id, attribute);
	read_attribute(text, path);
	return strcmp(text, value) == 0;
}

/* krbd's devices have the numbers of their directories. */
static bool is_krbd_of(const struct rbd_mapping *mapping, const char *name, char device[TEXT_MAX])
{
	if (name[0] < '0' || name[0] > '9')
		return false;
	snprintf(device, TEXT_MAX, "/dev/rbd%.16s", name);
	return attribute_is(mapping, name, "name", mapping->image) &&
	       attribute_is(mapping, name, "pool", mapping->address->pool) &&
	       attribute_is(mapping, name, "pool_ns", mapping->address->namespace) &&
	       attribute_is(mapping, name, "current_snap", "-");
}

/* The program under /dev/nbdN, whose arguments name the image. */
static bool is_nbd_of(const struct rbd_mapping *mapping, const char *name, char device[TEXT_MAX])
{
	cairn_auto_free char *words = NULL;
	char path[PATH_MAX], text[TEXT_MAX], spec[SPEC_MAX];
	size_t n = 0;

	if (strncmp(name, "nbd", 3) != 0)
		return false;
	snprintf(device, TEXT_MAX, "/dev/%.16s", name);
	snprintf(path, sizeof(path), "%s/sys/block/%s/pid", mapping->root, name);
	read_attribute(text, path);
	if (!text[0])
		return false;
	snprintf(path, sizeof(path), "%s/proc/%.16s/cmdline", mapping->root, text);
	if (cairn_file_read(AT_FDCWD, path, TEXT_MAX, &words, &n, NULL) != 0)
		return false;
	mapping_spec(mapping, spec);
	if (!strstr(words, "rbd-nbd"))
		return false;
	for (const char *word = words; word < words + n; word += strlen(word) + 1)
		if (strcmp(word, spec) == 0)
			return true;
	return false;
}

/* A directory that does not exist has no devices. */
static int find_device_in(const struct rbd_mapping *mapping, const char *sysfs,
			  bool (*is_of)(const struct rbd_mapping *mapping, const char *name,
					char device[TEXT_MAX]),
			  char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	char path[PATH_MAX], device[TEXT_MAX];
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s%s", mapping->root, sysfs);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "open '%s'", path);
	while (!ret_device[0] && (entry = readdir(dir)))
		if (is_of(mapping, entry->d_name, device))
			snprintf(ret_device, DEVICE_PATH_MAX, "%.31s", device);
	closedir(dir);
	return 0;
}

int rbd_mapping_find(const struct rbd_mapping *mapping, char ret_device[DEVICE_PATH_MAX],
		     struct cairn_err *err)
{
	int rc;

	ret_device[0] = '\0';
	rc = find_device_in(mapping, "/sys/bus/rbd/devices", is_krbd_of, ret_device, err);
	if (!rc && !ret_device[0])
		rc = find_device_in(mapping, "/sys/block", is_nbd_of, ret_device, err);
	return rc;
}

/* ---- mapping -------------------------------------------------------------------- */

static int await_node(const struct rbd_mapping *mapping, char ret_device[DEVICE_PATH_MAX],
		      struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + NODE_WAIT_MS * CAIRN_NS_PER_MS;
	int rc;

	for (;;) {
		rc = rbd_mapping_find(mapping, ret_device, err);
		if (rc || (ret_device[0] && access(ret_device, F_OK) == 0))
			return rc;
		if (cairn_monotonic_ns() > deadline)
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the image '%s' was mapped, but has no device",
					     mapping->image);
		cairn_sleep_ms(NODE_POLL_MS);
	}
}

int rbd_mapping_map(const struct rbd_mapping *mapping, enum rbd_device kind, bool read_only,
		    char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	const struct rbd_address *address = mapping->address;
	const char *argv[16];
	char spec[SPEC_MAX];
	size_t n = 0;
	int rc;

	mapping_spec(mapping, spec);
	argv[n++] = kind == RBD_DEVICE_NBD ? "rbd-nbd" : "rbd";
	if (kind == RBD_DEVICE_KRBD)
		argv[n++] = "device";
	argv[n++] = "map";
	if (address->conf[0]) {
		argv[n++] = "--conf";
		argv[n++] = address->conf;
	}
	if (address->user[0]) {
		argv[n++] = "--id";
		argv[n++] = address->user;
	}
	if (read_only) {
		argv[n++] = "--read-only";
	} else if (kind == RBD_DEVICE_NBD) {
		argv[n++] = "--exclusive";
		argv[n++] = "--quiesce";
	}
	argv[n++] = spec;
	argv[n] = NULL;
	rc = cairn_run(argv, err);
	return rc ? cairn_err_wrap(err, "map by %s", rbd_device_name(kind))
		  : await_node(mapping, ret_device, err);
}

int rbd_mapping_unmap(const char *device, struct cairn_err *err)
{
	const char *krbd[] = {"rbd", "device", "unmap", device, NULL};
	const char *nbd[] = {"rbd-nbd", "unmap", device, NULL};
	int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
	int rc;

	/* rbd-nbd would end under a mounted filesystem. */
	if (fd < 0 && errno == EBUSY)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "%s is mounted or open in another program", device);
	if (fd < 0) {
		cairn_err_sys(err, errno, "open '%s'", device);
		return cairn_err_recode(err, CAIRN_UNAVAILABLE);
	}
	cairn_closep(&fd);
	rc = cairn_run(rbd_mapping_kind(device) == RBD_DEVICE_NBD ? nbd : krbd, err);
	return rc ? cairn_err_recode(err, CAIRN_PRECONDITION) : 0;
}
