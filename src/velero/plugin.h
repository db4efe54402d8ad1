/* SPDX-License-Identifier: Apache-2.0 */

/* A plugin process of Velero, from its start to its end. */
#ifndef CAIRN_VELERO_PLUGIN_H
#define CAIRN_VELERO_PLUGIN_H

struct cairn_err;

/* Serves until Velero asks for the end, closes the connection or dies. `argv` is the command line
 * that Velero made: the program, then flags of the server. Prints the handshake to standard output
 * and logs to standard error as go-plugin wants it. Signals must not have been changed yet, and no
 * thread been started.
 *
 * CAIRN_PRECONDITION   not started by Velero
 * CAIRN_UNIMPLEMENTED  Velero wants something that is not supported
 */
int velero_plugin_run(int argc, char *const *argv, struct cairn_err *err);

#endif
