/* SPDX-License-Identifier: Apache-2.0 */

/* The process of an export that connects to Ceph and serves the image (rbd_export.h). */
#ifndef CAIRN_POOL_RBD_EXPORT_SERVER_H
#define CAIRN_POOL_RBD_EXPORT_SERVER_H

struct export_state;
struct rbd_export_spec;

/* Returns the exit status; says on standard output when the file can be used, or why not. */
int rbd_export_server(const struct rbd_export_spec *spec, int fuse, struct export_state *state);

/* One line to the process that started the export, which then waits no longer. */
void rbd_export_say(int code, const char *text);
void rbd_export_hush(void);

#endif
