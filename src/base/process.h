/* SPDX-License-Identifier: Apache-2.0 */

/* Runs another program and waits for it, without a shell. */
#ifndef CAIRN_BASE_PROCESS_H
#define CAIRN_BASE_PROCESS_H

struct cairn_err;

/* Runs argv[0] from PATH with the given arguments (NULL-terminated), standard input empty,
 * standard output discarded. On failure the error text contains the end of its standard
 * error.
 *
 * CAIRN_NOT_FOUND  the program is not installed
 * CAIRN_INTERNAL   it exited with a status other than 0 or was killed by a signal
 */
int cairn_run(const char *const argv[], struct cairn_err *err);

/* The same, but exit statuses up to `worst` count as success: fsck returns 1 after a
 * repair. */
int cairn_run_up_to(const char *const argv[], int worst, struct cairn_err *err);

#endif
