/* SPDX-License-Identifier: Apache-2.0 */

/* Executing the program of a heavy role.
 *
 * TLS, HTTP/2 and their kind cost every process that is linked with them a
 * millisecond before main(), so they are not in `cairn` but in one program for each
 * role, `cairn-NAME`. It takes the place of this process: pid, descriptors, signals and
 * the command line stay as they are.
 */
#ifndef CAIRN_CLI_PROGRAM_H
#define CAIRN_CLI_PROGRAM_H

struct cairn_err;

/* GnuTLS, one of the libraries behind libcurl that are never called, would initialise itself
 * at start. `cairn` sets this variable for the program, which removes it
 * again if it has this value, so that no child inherits it. GnuTLS reads the number. */
#define CMD_PROGRAM_GNUTLS       "GNUTLS_NO_IMPLICIT_INIT"
#define CMD_PROGRAM_GNUTLS_VALUE "1 (cairn)"

/* Executes cairn-NAME with the words of the command line: from the directory "roles" beside
 * this program (a build directory), else from where roles are installed. Returns only on
 * failure.
 *
 * CAIRN_UNIMPLEMENTED  the program is not installed
 */
int cmd_program_exec(const char *name, struct cairn_err *err);

#endif
