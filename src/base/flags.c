/* SPDX-License-Identifier: Apache-2.0 */

#include "base/flags.h"

#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"

const struct cairn_flag *cairn_flags_find(const struct cairn_flag *const tables[], const char *name)
{
	for (; *tables; tables++)
		for (const struct cairn_flag *flag = *tables; flag->name; flag++)
			if (strcmp(flag->name, name) == 0)
				return flag;
	return NULL;
}

static const struct cairn_flag *find_letter(const struct cairn_flag *const tables[], char letter)
{
	for (; *tables; tables++)
		for (const struct cairn_flag *flag = *tables; flag->name; flag++)
			if (flag->letter == letter)
				return flag;
	return NULL;
}

static int set_choice(const struct cairn_flag *flag, const char *value, struct cairn_err *err)
{
	char list[160] = "";
	size_t used = 0;

	for (int i = 0; flag->choices[i]; i++) {
		size_t n = strlen(flag->choices[i]);

		if (strcmp(flag->choices[i], value) == 0) {
			*(int *)flag->target = i;
			return 0;
		}
		if (used + n + 3 < sizeof(list)) {
			memcpy(list + used, used ? ", " : "", used ? 2 : 0);
			used += used ? 2 : 0;
			memcpy(list + used, flag->choices[i], n + 1);
			used += n;
		}
	}
	return cairn_err_set(err, CAIRN_INVALID, "'%s' is not one of %s", value, list);
}

static int flags_add_string(struct cairn_strings *strings, const char *value, struct cairn_err *err)
{
	if (strings->n == CAIRN_STRINGS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "given more than %u times",
				     CAIRN_STRINGS_MAX);
	strings->at[strings->n++] = value;
	return 0;
}

static int set_value(const struct cairn_flag *flag, const char *value, struct cairn_err *err)
{
	int rc = 0;

	switch (flag->kind) {
	case CAIRN_FLAG_BOOL:
		*(bool *)flag->target = true;
		break;
	case CAIRN_FLAG_STRING:
		*(const char **)flag->target = value;
		break;
	case CAIRN_FLAG_U64:
		rc = cairn_parse_u64(value, flag->target, err);
		break;
	case CAIRN_FLAG_I64:
		rc = cairn_parse_i64(value, flag->target, err);
		break;
	case CAIRN_FLAG_SIZE:
		rc = cairn_parse_size(value, flag->target, err);
		break;
	case CAIRN_FLAG_DURATION:
		if (strcmp(value, "none") == 0)
			*(uint64_t *)flag->target = UINT64_MAX;
		else
			rc = cairn_parse_duration_ms(value, flag->target, err);
		break;
	case CAIRN_FLAG_CHOICE:
		rc = set_choice(flag, value, err);
		break;
	case CAIRN_FLAG_STRINGS:
		rc = flags_add_string(flag->target, value, err);
		break;
	}
	if (rc) {
		cairn_err_wrap(err, "--%s", flag->name);
		return cairn_err_recode(err, CAIRN_INVALID);
	}
	if (flag->given)
		*flag->given = true;
	return 0;
}

static int refuse_unknown(const struct cairn_flag *const tables[], const char *name, int n,
			  struct cairn_err *err)
{
	char typed[CAIRN_TEXT_DISTANCE_MAX + 1];
	const char *best = NULL;
	size_t least;

	if (n > CAIRN_TEXT_DISTANCE_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "unknown option '--%.*s'", n, name);
	memcpy(typed, name, (size_t)n);
	typed[n] = '\0';
	least = cairn_text_near(typed) + 1;
	for (; *tables; tables++) {
		for (const struct cairn_flag *flag = *tables; flag->name; flag++) {
			size_t distance = cairn_text_distance(flag->name, typed);

			if (!flag->hidden && distance < least) {
				least = distance;
				best = flag->name;
			}
		}
	}
	if (best)
		return cairn_err_set(err, CAIRN_INVALID,
				     "unknown option '--%s' (did you mean '--%s'?)", typed, best);
	return cairn_err_set(err, CAIRN_INVALID, "unknown option '--%s'", typed);
}

struct parse {
	const struct cairn_flag *const *tables;
	char **argv;
	int argc;
	int next;
	unsigned how;
};

/* Parses the value of a boolean in Go's syntax. */
static int set_bool(const struct parse *p, const struct cairn_flag *flag, const char *value,
		    struct cairn_err *err)
{
	static const char *const yes[] = {"1", "t", "T", "true", "True", "TRUE", NULL};
	static const char *const no[] = {"0", "f", "F", "false", "False", "FALSE", NULL};
	bool is_yes = false, is_no = false;

	if (!(p->how & CAIRN_FLAGS_GO))
		return cairn_err_set(err, CAIRN_INVALID, "--%s takes no value", flag->name);
	for (int i = 0; yes[i]; i++) {
		is_yes = is_yes || strcmp(value, yes[i]) == 0;
		is_no = is_no || strcmp(value, no[i]) == 0;
	}
	if (!is_yes && !is_no)
		return cairn_err_set(err, CAIRN_INVALID, "--%s: '%s' is not true or false",
				     flag->name, value);
	*(bool *)flag->target = is_yes;
	if (flag->given)
		*flag->given = true;
	return 0;
}

/* "--name", "--name=value", "--no-name". */
static int parse_long(struct parse *p, const char *word, struct cairn_err *err)
{
	const char *equals = strchr(word, '=');
	size_t n = equals ? (size_t)(equals - word) : strlen(word);
	char name[64];
	const struct cairn_flag *flag = NULL;

	if (n < sizeof(name)) {
		memcpy(name, word, n);
		name[n] = '\0';
		flag = cairn_flags_find(p->tables, name);
		/* A flag whose own name begins with "no-" was found above. */
		if (!flag && !equals && strncmp(name, "no-", 3) == 0) {
			flag = cairn_flags_find(p->tables, name + 3);
			if (flag && flag->kind == CAIRN_FLAG_BOOL) {
				*(bool *)flag->target = false;
				if (flag->given)
					*flag->given = true;
				return 0;
			}
			flag = NULL;
		}
	}
	if (!flag)
		return refuse_unknown(p->tables, word, n > INT_MAX ? INT_MAX : (int)n, err);
	if (flag->kind == CAIRN_FLAG_BOOL) {
		return equals ? set_bool(p, flag, equals + 1, err) : set_value(flag, NULL, err);
	}
	if (equals)
		return set_value(flag, equals + 1, err);
	if (p->next >= p->argc)
		return cairn_err_set(err, CAIRN_INVALID, "--%s needs a value (%s)", name,
				     flag->value_name ? flag->value_name : "VALUE");
	return set_value(flag, p->argv[p->next++], err);
}

/* "-a", "-abc", "-nVALUE", "-n VALUE". */
static int parse_short(struct parse *p, const char *letters, struct cairn_err *err)
{
	for (; *letters; letters++) {
		const struct cairn_flag *flag = find_letter(p->tables, *letters);
		int rc;

		if (!flag)
			/* Quote the rest too if the letter may be part of a multi-byte
			 * character. */
			return cairn_err_set(err, CAIRN_INVALID, "unknown option '-%.*s'",
					     (unsigned char)*letters < 0x80 ? 1 : INT_MAX, letters);
		if (flag->kind != CAIRN_FLAG_BOOL) {
			if (letters[1])
				return set_value(flag, letters + 1, err);
			if (p->next >= p->argc)
				return cairn_err_set(err, CAIRN_INVALID, "-%c needs a value (%s)",
						     *letters,
						     flag->value_name ? flag->value_name : "VALUE");
			return set_value(flag, p->argv[p->next++], err);
		}
		rc = set_value(flag, NULL, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* "-name", "-name=value": a long name behind one dash. */
static bool is_go(const struct parse *p, const char *word)
{
	size_t n = strcspn(word, "=");
	char name[64];

	if (!(p->how & CAIRN_FLAGS_GO) || n >= sizeof(name))
		return false;
	memcpy(name, word, n);
	name[n] = '\0';
	return cairn_flags_find(p->tables, name) != NULL;
}

int cairn_flags_parse(const struct cairn_flag *const tables[], int argc, char **argv, unsigned how,
		      int *ret_argc, struct cairn_err *err)
{
	struct parse p = {.tables = tables, .argv = argv, .argc = argc, .how = how};
	int kept = 0;
	bool only_arguments = false;

	while (p.next < argc) {
		char *word = argv[p.next++];
		int rc = 0;

		if (only_arguments || word[0] != '-' || !word[1]) { /* "-" is an argument */
			argv[kept++] = word; /* of a place that was read already */
			only_arguments = only_arguments || (how & CAIRN_FLAGS_STOP);
		} else if (strcmp(word, "--") == 0) {
			only_arguments = true;
		} else if (word[1] == '-') {
			rc = parse_long(&p, word + 2, err);
		} else if (is_go(&p, word + 1)) {
			rc = parse_long(&p, word + 1, err);
		} else {
			rc = parse_short(&p, word + 1, err);
		}
		if (rc)
			return rc;
	}
	*ret_argc = kept;
	return 0;
}
