/* SPDX-License-Identifier: Apache-2.0 */

/* A directory below TMPDIR for each test of a group; its files go with it. */
#ifndef CAIRN_TESTS_UNIT_SCRATCH_DIR_H
#define CAIRN_TESTS_UNIT_SCRATCH_DIR_H

extern char scratch_dir[64];
extern int scratch_dir_fd;

/* For cmocka_unit_test_setup_teardown(). */
int scratch_dir_make(void **state);
int scratch_dir_remove(void **state);

#endif
