/* SPDX-License-Identifier: Apache-2.0 */

/* Running another program to its end, without a shell. */
#ifndef CAIRN_BASE_PROCESS_H
#define CAIRN_BASE_PROCESS_H

struct cairn_err;

/* Runs argv[0] from PATH with the given arguments (NULL-terminated), standard
 * input empty, standard output discarded. On failure the end of what it wrote
 * to standard error is in the text.
 *
 * CAIRN_NOT_FOUND  the program is not installed
 * CAIRN_INTERNAL   it exited with another status than 0 or by a signal
 */
int cairn_run(const char *const argv[], struct cairn_err *err);

/* The same, but exit statuses up to `worst` are fine too: fsck says 1 for what it
 * put right. */
int cairn_run_up_to(const char *const argv[], int worst, struct cairn_err *err);

#endif
