/* SPDX-License-Identifier: Apache-2.0 */

/* The password of a repository: from a file, a command, the environment or, as a
 * last resort, the terminal. Never from the command line, which other users can
 * read. */
#ifndef CAIRN_BACKUP_PASSWORD_H
#define CAIRN_BACKUP_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

#define PASSWORD_MAX 65536U /* limit of a file or of a command's output */

struct password_spec {
	const char *file;    /* or NULL */
	const char *command; /* words, '…' and "…" keep spaces; run without a shell; or NULL */
	/* Names of variables: the password itself, its file, its command. */
	const char *variable;
	const char *file_variable;
	const char *command_variable;
	const char *prompt; /* for the terminal */
	bool twice;         /* ask again to confirm a new password */
};

/* White space at both ends of a file's content or a command's output is dropped, as by
 * restic; line ends after a variable's value are dropped too, which restic does not do:
 * see backup_password_uncut(). Owned by the caller: backup_password_free().
 *
 * CAIRN_INVALID    no password, it is empty, or it contains a NUL byte
 * CAIRN_CANCELLED  interrupted at the terminal, whose settings are restored first
 */
int backup_password_get(const struct password_spec *spec, char **ret, struct cairn_err *err);

/* The unmodified value of the variable that backup_password_get() used, if it dropped line
 * ends; otherwise NULL. It is the password of a repository that restic created with the
 * same variable. */
const char *backup_password_uncut(const struct password_spec *spec);

/* Wipes and frees. Accepts NULL. */
void backup_password_free(char *password);

static inline void backup_password_freep(char **password)
{
	backup_password_free(*password);
}

#endif
