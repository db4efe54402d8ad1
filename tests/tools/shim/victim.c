/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the calls that the fault shim counts, for its self-test.
 *
 *   shim-victim DIR MODE     works in DIR and prints "done"
 *
 *   all      each counted call once, with "ok NAME" or "failed NAME ERRNO"
 *   fork     three writes: one here, one in a child, one in a child of another
 *            program (this one again)
 *   threads  four threads with 25 writes each
 *   outside  writes outside DIR
 *   wait     makes a file from a child, which then sleeps for ever
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int file = -1;
static int other = -1;

static void report(const char *name, long rc)
{
	if (rc < 0)
		printf("failed %s %d\n", name, errno);
	else
		printf("ok %s\n", name);
	fflush(stdout);
}

#define TRY(name, expression) report(name, (long)(expression))

static void data_calls(void)
{
	char text[] = "xyz";
	struct iovec iov = {.iov_base = text, .iov_len = 3};
	off_t from = 0;
	off_t to = 0;

	TRY("write", write(file, "a", 1));
	TRY("writev", writev(file, &iov, 1));
	TRY("pwrite", pwrite(file, "b", 1, 1));
	TRY("pwritev", pwritev(file, &iov, 1, 0));
	TRY("copy_file_range", copy_file_range(file, &from, other, &to, 2, 0));
	TRY("ftruncate", ftruncate(file, 4096));
	TRY("fallocate", fallocate(file, 0, 0, 4096));
	TRY("fsync", fsync(file));
	TRY("fdatasync", fdatasync(file));
	TRY("syncfs", syncfs(file));
	TRY("ioctl", ioctl(other, FICLONE, file));
}

static void map_call(void)
{
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (map == MAP_FAILED)
		return;
	map[0] = 'm';
	TRY("msync", msync(map, 4096, MS_SYNC));
	munmap(map, 4096);
}

static void name_calls(int dir)
{
	TRY("mkdir", mkdir("sub", 0700));
	TRY("mkdirat", mkdirat(dir, "sub2", 0700));
	TRY("rename", rename("sub", "sub3"));
	TRY("renameat", renameat(dir, "sub2", dir, "sub4"));
	TRY("link", linkat(dir, "file", dir, "hard", 0));
	TRY("symlink", symlink("file", "soft"));
	TRY("unlink", unlink("soft"));
	TRY("unlinkat", unlinkat(dir, "hard", 0));
	TRY("rmdir", rmdir("sub3"));
	TRY("remove", remove("sub4"));
	TRY("umount", umount2("file", UMOUNT_NOFOLLOW)); /* refused, but reached */
}

static void all_calls(int dir)
{
	TRY("open", file = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	TRY("openat", other = openat(dir, "other", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	data_calls();
	map_call();
	name_calls(dir);
}

static void write_once(const char *name)
{
	int fd = openat(AT_FDCWD, name, O_RDWR | O_CLOEXEC);

	TRY("write", write(fd, "x", 1));
	close(fd);
}

static void fork_calls(const char *program)
{
	pid_t pid;

	write_once("seed");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		write_once("seed");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	pid = fork();
	if (pid == 0) {
		execl(program, program, ".", "one", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void *write_often(void *arg)
{
	int fd = open("seed", O_RDWR | O_CLOEXEC);

	(void)arg;
	for (int i = 0; i < 25; i++)
		if (write(fd, "x", 1) != 1)
			break;
	close(fd);
	return NULL;
}

static void thread_calls(void)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_often, NULL);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void wait_in_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		printf("child %d\n", (int)getpid());
		fflush(stdout);
		for (;;)
			pause();
	}
	write_once("seed");
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *mode;
	int dir;

	if (argc != 3 || chdir(argv[1]) < 0)
		return 2;
	mode = argv[2];
	dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (strcmp(mode, "all") == 0)
		all_calls(dir);
	else if (strcmp(mode, "fork") == 0)
		fork_calls(argv[0]);
	else if (strcmp(mode, "one") == 0)
		write_once("seed");
	else if (strcmp(mode, "threads") == 0)
		thread_calls();
	else if (strcmp(mode, "outside") == 0)
		write_once("../outside");
	else if (strcmp(mode, "wait") == 0)
		wait_in_child();
	printf("done\n");
	return 0;
}
