/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/password.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "backup/output_of.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define WORDS_MAX      64
#define LINE_MAX_BYTES 4097 /* a terminal's lines are not longer */

void backup_password_free(char *password)
{
	if (password)
		explicit_bzero(password, strlen(password));
	free(password);
}

static char *password_trimmed(char *text)
{
	char *from = text;
	size_t n;

	while (*from && isspace((unsigned char)*from))
		from++;
	n = strlen(from);
	while (n > 0 && isspace((unsigned char)from[n - 1]))
		n--;
	memmove(text, from, n);
	text[n] = '\0';
	return text;
}

static int password_from_file(const char *path, char **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_password_freep) char *text = NULL;
	size_t n = 0;
	int rc = cairn_file_read(AT_FDCWD, path, PASSWORD_MAX, &text, &n, err);

	/* The text after the NUL would silently not be part of the password. */
	if (!rc && memchr(text, '\0', n))
		rc = cairn_err_set(err, CAIRN_INVALID, "there is a NUL byte in '%s'", path);
	if (rc)
		return cairn_err_wrap(err, "password file");
	*ret = password_trimmed(cairn_take(text));
	return 0;
}

/* Splits the words in place. */
static int password_split(char *text, char *words[WORDS_MAX + 1], struct cairn_err *err)
{
	size_t n = 0;

	for (char *p = text; *p;) {
		char quote = 0;
		char *to;

		while (isspace((unsigned char)*p))
			p++;
		if (!*p)
			break;
		if (n == WORDS_MAX)
			return cairn_err_set(err, CAIRN_INVALID,
					     "the password command has too many words");
		words[n++] = to = p;
		for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
			if (quote ? *p == quote : *p == '\'' || *p == '"')
				quote = quote ? 0 : *p;
			else
				*to++ = *p;
		}
		if (*p)
			p++;
		*to = '\0';
		if (quote)
			return cairn_err_set(err, CAIRN_INVALID,
					     "the password command lacks a closing quote");
	}
	words[n] = NULL;
	return n ? 0 : cairn_err_set(err, CAIRN_INVALID, "the password command is empty");
}

static int from_command(const char *command, char **ret, struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(command);
	char *words[WORDS_MAX + 1];
	int rc;

	if (!copy)
		return cairn_err_nomem(err, "password");
	rc = password_split(copy, words, err);
	if (!rc)
		rc = backup_output_of(words, PASSWORD_MAX, ret, err);
	if (rc)
		return cairn_err_wrap(err, "password command");
	(void)password_trimmed(*ret);
	return 0;
}

/* Signals that end the program. They are caught while the echo is off, because the terminal
 * would stay that way. */
static const int ending[] = {SIGINT, SIGTERM, SIGQUIT};
#define ENDING (sizeof(ending) / sizeof(ending[0]))

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = sig;
}

/* Reads one line from the terminal. A signal ends the read, and is raised again after the
 * terminal was restored. */
static ssize_t read_line(int fd, const struct termios *quiet, const struct termios *old, char *line,
			 size_t n)
{
	struct sigaction catching = {.sa_handler = on_signal}; /* no SA_RESTART: ends read() */
	struct sigaction before[ENDING];
	ssize_t got;
	int why;

	caught = 0;
	for (size_t i = 0; i < ENDING; i++)
		sigaction(ending[i], &catching, &before[i]);
	tcsetattr(fd, TCSAFLUSH, quiet);
	got = caught ? -1 : read(fd, line, n);
	why = errno;
	tcsetattr(fd, TCSAFLUSH, old);
	(void)cairn_write_full(fd, "\n", 1);
	for (size_t i = 0; i < ENDING; i++)
		sigaction(ending[i], &before[i], NULL);
	if (caught)
		raise(caught);
	errno = why;
	return caught ? -1 : got;
}

/* Reads one line from the terminal without echo. */
static int password_ask(const char *prompt, char **ret, struct cairn_err *err)
{
	cairn_auto_fd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	struct termios old;
	struct termios quiet;
	char line[LINE_MAX_BYTES];
	ssize_t n;

	if (fd < 0 || tcgetattr(fd, &old) < 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "no password: give --password-file, --password-command or "
				     "RESTIC_PASSWORD_FILE");
	quiet = old;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	(void)cairn_write_full(fd, prompt, strlen(prompt));
	n = read_line(fd, &quiet, &old, line, sizeof(line) - 1);
	if (n < 0 && caught)
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	if (n < 0)
		return cairn_err_sys(err, errno, "read the password");
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	*ret = cairn_strdup(line);
	explicit_bzero(line, sizeof(line));
	return *ret ? 0 : cairn_err_nomem(err, "password");
}

static int ask_twice(const struct password_spec *spec, char **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_password_freep) char *first = NULL;
	cairn_cleanup(backup_password_freep) char *second = NULL;
	int rc = password_ask(spec->prompt, &first, err);

	if (!rc && spec->twice)
		rc = password_ask("once more: ", &second, err);
	if (!rc && spec->twice && strcmp(first, second) != 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "the two passwords are not the same");
	if (!rc)
		*ret = cairn_take(first);
	return rc;
}

static const char *password_variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* The length without trailing line ends: a Secret created from a file has one. */
static size_t length_cut(const char *text)
{
	size_t n = strlen(text);

	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	return n;
}

const char *backup_password_uncut(const struct password_spec *spec)
{
	const char *value = password_variable(spec->variable);

	if (spec->file || spec->command || !value || !value[length_cut(value)])
		return NULL;
	return value;
}

int backup_password_get(const struct password_spec *spec, char **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_password_freep) char *password = NULL;
	int rc;

	if (spec->file)
		rc = password_from_file(spec->file, &password, err);
	else if (spec->command)
		rc = from_command(spec->command, &password, err);
	else if (password_variable(spec->variable)) {
		const char *value = password_variable(spec->variable);

		password = cairn_memdup(value, strlen(value) + 1);
		rc = password ? 0 : cairn_err_nomem(err, "password");
		if (!rc)
			password[length_cut(value)] = '\0';
	} else if (password_variable(spec->file_variable))
		rc = password_from_file(password_variable(spec->file_variable), &password, err);
	else if (password_variable(spec->command_variable))
		rc = from_command(password_variable(spec->command_variable), &password, err);
	else
		rc = ask_twice(spec, &password, err);
	if (rc)
		return rc;
	if (!*password)
		return cairn_err_set(err, CAIRN_INVALID, "the password is empty");
	*ret = cairn_take(password);
	return 0;
}
