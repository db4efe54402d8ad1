/* SPDX-License-Identifier: Apache-2.0 */

/* What is done without change tracking: reads two files of one size in blocks
 * of 4 KiB and prints how many blocks differ.
 *   bench-compare FILE FILE */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 4096

int main(int argc, char **argv)
{
	static char a[BLOCK], b[BLOCK];
	uint64_t blocks = 0, differ = 0;
	int fds[2];

	if (argc != 3)
		return 2;
	for (int i = 0; i < 2; i++) {
		fds[i] = open(argv[i + 1], O_RDONLY | O_CLOEXEC);
		if (fds[i] < 0) {
			perror(argv[i + 1]);
			return 1;
		}
	}
	for (;;) {
		ssize_t n = read(fds[0], a, BLOCK);
		ssize_t m = read(fds[1], b, BLOCK);

		if (n < 0 || m != n) {
			fprintf(stderr, "cannot read, or the sizes differ\n");
			return 1;
		}
		if (n == 0)
			break;
		differ += memcmp(a, b, (size_t)n) != 0;
		blocks++;
	}
	printf("%ju of %ju blocks differ\n", (uintmax_t)differ, (uintmax_t)blocks);
	return 0;
}
