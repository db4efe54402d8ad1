/* SPDX-License-Identifier: Apache-2.0 */

/* The password of a repository: from a file, a command, the environment or, last,
 * whoever sits at the terminal. Never from the command line, where all could
 * read it. */
#ifndef CAIRN_BACKUP_PASSWORD_H
#define CAIRN_BACKUP_PASSWORD_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

#define PASSWORD_MAX 65536U /* bytes of a file or of what a command prints */

struct password_spec {
	const char *file;    /* or NULL */
	const char *command; /* words, '…' and "…" keep spaces; run without a shell; or NULL */
	/* Names of variables: the password itself, its file, its command. */
	const char *variable;
	const char *file_variable;
	const char *command_variable;
	const char *prompt; /* for the terminal */
	bool twice;         /* ask for it again: it is new */
};

/* White space at both ends of what a file or a command holds is dropped, as restic does
 * it; line ends behind a variable's value are dropped too, which restic does not do: see
 * password_uncut(). Owned by the caller: password_free().
 *
 * CAIRN_INVALID    there is none, it is empty, or there is a NUL byte in it
 * CAIRN_CANCELLED  interrupted at the terminal, which is put in order first
 */
int password_get(const struct password_spec *spec, char **ret, struct cairn_err *err);

/* The value of the variable that password_get() took, where that dropped line ends; NULL
 * where it did not. A repository that restic made from the same variable has it as its
 * password. */
const char *password_uncut(const struct password_spec *spec);

/* Wipes and frees. Accepts NULL. */
void password_free(char *password);

static inline void password_freep(char **password)
{
	password_free(*password);
}

#endif
