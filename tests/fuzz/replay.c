/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a fuzz target over files, and over the files of directories: the corpus
 * in an ordinary test run, or the input of a crash under a debugger. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"

#define INPUT_MAX (16U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dir_fd, const char *name)
{
	cairn_auto_free char *text = NULL;
	cairn_auto_free uint8_t *exact = NULL;
	struct cairn_err err = {0};
	size_t n;

	if (cairn_file_read(dir_fd, name, INPUT_MAX, &text, &n, &err) < 0) {
		fprintf(stderr, "%s: %s\n", name, err.msg);
		return -1;
	}
	/* Without the terminating NUL, so that a sanitizer sees a read past
	 * the end. */
	exact = malloc(n ? n : 1);
	if (!exact)
		return -1;
	memcpy(exact, text, n);
	LLVMFuzzerTestOneInput(exact, n);
	return 0;
}

static int replay_dir(const char *path, unsigned *count)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		fprintf(stderr, "%s: %s\n", path, strerrordesc_np(errno));
		return -1;
	}
	while (rc == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		rc = replay_file(dirfd(dir), entry->d_name);
		++*count;
	}
	closedir(dir);
	return rc;
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;
		int rc;

		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			rc = replay_dir(argv[i], &count);
		} else {
			rc = replay_file(AT_FDCWD, argv[i]);
			count++;
		}
		if (rc < 0)
			return 1;
	}
	printf("%u inputs replayed\n", count);
	return count > 0 ? 0 : 1;
}
