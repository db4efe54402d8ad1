/* SPDX-License-Identifier: Apache-2.0 */

/* Replaces words in the text of an error. */
#ifndef CAIRN_BASE_ERR_REPLACE_H
#define CAIRN_BASE_ERR_REPLACE_H

struct cairn_err;

/* Replaces the word `from` in the text of `err` with `to`, such as a storage system's handle
 * with the name that a user knows. A word shorter than CAIRN_ERR_WORD_MIN, which may be part
 * of the prose, is kept. Text that does not fit is cut. `err` may be NULL. */
#define CAIRN_ERR_WORD_MIN 6U
void cairn_err_replace(struct cairn_err *err, const char *from, const char *to);

#endif
