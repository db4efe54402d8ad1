/* SPDX-License-Identifier: Apache-2.0 */

/* A symbolic link to a volume's device, which has another number after each boot. */
#ifndef CAIRN_CLI_LINK_H
#define CAIRN_CLI_LINK_H

struct cairn_err;

/* Makes `path` a link to `device`, replacing a link that is there, in one step. The
 * directory is made where it is missing.
 *
 * CAIRN_EXISTS  there is something that is not a link
 */
int cmd_link_make(const char *path, const char *device, struct cairn_err *err);

/* Removes the link; a missing one is fine.
 *
 * CAIRN_EXISTS  it is not a link
 */
int cmd_link_remove(const char *path, struct cairn_err *err);

#endif
