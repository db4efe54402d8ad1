/* SPDX-License-Identifier: Apache-2.0 */

/* Devices of krbd and rbd-nbd are found in a tree that looks as the kernel's. */
#include "cairntest.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "pool/rbd/rbd_mapping.h"

static const struct rbd_address address = {.pool = "rbd", .namespace = "prod"};

static char root[64];

/* A file with its directories. */
static void put(const char *name, const void *data, size_t n)
{
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		(void)mkdir(path, 0755);
		*at = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void put_krbd(const char *id, const char *pool, const char *namespace, const char *image,
		     const char *snapshot)
{
	const struct {
		const char *name, *value;
	} attributes[] = {{"pool", pool},
			  {"pool_ns", namespace},
			  {"name", image},
			  {"current_snap", snapshot}};
	char path[256], line[256];

	for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
		snprintf(path, sizeof(path), "/sys/bus/rbd/devices/%s/%s", id, attributes[i].name);
		snprintf(line, sizeof(line), "%s\n", attributes[i].value);
		put_text(path, line);
	}
}

static const char *find(const char *image)
{
	static char device[DEVICE_PATH_MAX];
	struct rbd_mapping mapping = {.root = root, .address = &address, .image = image};
	struct cairn_err err = {0};

	assert_int_equal(rbd_mapping_find(&mapping, device, &err), 0);
	return device;
}

static int tree_make(void **state)
{
	(void)state;
	scratch_template(root, "rbd-mapping");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int tree_remove(void **state)
{
	(void)state;
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void a_host_without_either_has_no_devices(void **state)
{
	(void)state;
	assert_string_equal(find("vol-1"), "");
}

static void krbd_is_found_by_pool_namespace_and_image(void **state)
{
	(void)state;
	put_krbd("0", "rbd", "", "vol-1", "-");
	put_krbd("1", "other", "prod", "vol-1", "-");
	put_krbd("2", "rbd", "prod", "vol-1", "snap-1");
	assert_string_equal(find("vol-1"), "");
	put_krbd("13", "rbd", "prod", "vol-1", "-");
	assert_string_equal(find("vol-1"), "/dev/rbd13");
	assert_string_equal(find("vol-2"), "");
}

static void nbd_is_found_by_the_arguments_of_its_program(void **state)
{
	static const char words[] = "rbd-nbd\0map\0--exclusive\0rbd/prod/vol-3";
	static const char longer[] = "rbd-nbd\0map\0rbd/prod/vol-33";
	static const char other[] = "nbd-client\0rbd/prod/vol-4";

	(void)state;
	put_text("/sys/block/nbd0/size", "0\n"); /* free: has no pid */
	put_text("/sys/block/nbd1/pid", "77\n");
	put_text("/sys/block/nbd2/pid", "78\n");
	put_text("/sys/block/nbd3/pid", "79\n");
	put("/proc/77/cmdline", longer, sizeof(longer));
	put("/proc/78/cmdline", words, sizeof(words));
	put("/proc/79/cmdline", other, sizeof(other));
	assert_string_equal(find("vol-3"), "/dev/nbd2");
	assert_string_equal(find("vol-4"), "");
}

static void expect_choice(enum rbd_device wanted, enum rbd_device expected)
{
	struct cairn_err err = {0};
	enum rbd_device got = RBD_DEVICE_AUTO;

	assert_int_equal(rbd_mapping_choose(root, wanted, &got, &err), 0);
	assert_int_equal(got, expected);
}

static void expect_refusal(enum rbd_device wanted, const char *text)
{
	struct cairn_err err = {0};
	enum rbd_device got = RBD_DEVICE_AUTO;

	assert_int_equal(rbd_mapping_choose(root, wanted, &got, &err), CAIRN_UNIMPLEMENTED);
	assert_non_null(strstr(err.msg, text));
}

static void make_programs(void)
{
	char path[512];

	put_text("/bin/rbd", "");
	put_text("/bin/rbd-nbd", "");
	snprintf(path, sizeof(path), "%s/bin/rbd", root);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/bin/rbd-nbd", root);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/bin", root);
	assert_int_equal(setenv("PATH", path, 1), 0);
}

static void krbd_comes_first_then_nbd_then_the_export(void **state)
{
	char path[512];
	struct utsname name;

	(void)state;
	assert_int_equal(uname(&name), 0);
	assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
	expect_choice(RBD_DEVICE_AUTO, RBD_DEVICE_EXPORT);
	expect_choice(RBD_DEVICE_EXPORT, RBD_DEVICE_EXPORT);
	expect_refusal(RBD_DEVICE_KRBD, "no krbd");
	expect_refusal(RBD_DEVICE_NBD, "no nbd");
	put_text("/sys/block/nbd0/size", "0\n");
	expect_refusal(RBD_DEVICE_NBD, "'rbd-nbd'");
	expect_choice(RBD_DEVICE_AUTO, RBD_DEVICE_EXPORT);
	make_programs();
	expect_choice(RBD_DEVICE_AUTO, RBD_DEVICE_NBD);
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", name.release);
	put_text(path, "kernel/drivers/block/rbd.ko.xz: kernel/net/ceph/libceph.ko.xz\n");
	expect_choice(RBD_DEVICE_AUTO, RBD_DEVICE_KRBD);
	expect_choice(RBD_DEVICE_NBD, RBD_DEVICE_NBD);
	expect_choice(RBD_DEVICE_EXPORT, RBD_DEVICE_EXPORT);
}

static void a_device_has_the_kind_of_its_name(void **state)
{
	(void)state;
	assert_int_equal(rbd_mapping_kind("/dev/rbd4"), RBD_DEVICE_KRBD);
	assert_int_equal(rbd_mapping_kind("/dev/nbd4"), RBD_DEVICE_NBD);
	assert_int_equal(rbd_mapping_kind("/dev/loop4"), RBD_DEVICE_EXPORT);
}

/* Callers take CAIRN_NOT_FOUND for a volume that does not exist. */
static void a_device_without_a_node_is_not_a_missing_volume(void **state)
{
	struct cairn_err err = {0};
	bool read_only;

	(void)state;
	assert_int_equal(pool_device_is_read_only("/dev/rbd-none", &read_only, &err),
			 CAIRN_UNAVAILABLE);
	assert_int_equal(rbd_mapping_unmap("/dev/rbd-none", &err), CAIRN_UNAVAILABLE);
	assert_null(strstr(err.msg, "mounted"));
}

static void expect_device(const char *text, enum rbd_device expected)
{
	struct cairn_err err = {0};
	struct rbd_address parsed;

	assert_int_equal(rbd_address_parse(text, &parsed, &err), 0);
	assert_int_equal(parsed.device, expected);
}

/* What no test has seen on a real device is not taken unless it is named. */
static void volumes_are_exported_unless_the_address_says_otherwise(void **state)
{
	(void)state;
	expect_device("rbd:one", RBD_DEVICE_EXPORT);
	expect_device("rbd:one/prod:id=cairn", RBD_DEVICE_EXPORT);
	expect_device("rbd:one:device=export", RBD_DEVICE_EXPORT);
	expect_device("rbd:one:device=krbd", RBD_DEVICE_KRBD);
	expect_device("rbd:one:device=nbd:id=cairn", RBD_DEVICE_NBD);
	expect_device("rbd:one:device=auto", RBD_DEVICE_AUTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_host_without_either_has_no_devices, tree_make,
						tree_remove),
		cmocka_unit_test_setup_teardown(krbd_is_found_by_pool_namespace_and_image,
						tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(nbd_is_found_by_the_arguments_of_its_program,
						tree_make, tree_remove),
		cmocka_unit_test_setup_teardown(krbd_comes_first_then_nbd_then_the_export,
						tree_make, tree_remove),
		cmocka_unit_test(a_device_has_the_kind_of_its_name),
		cmocka_unit_test(a_device_without_a_node_is_not_a_missing_volume),
		cmocka_unit_test(volumes_are_exported_unless_the_address_says_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
