/* SPDX-License-Identifier: Apache-2.0 */

#include "older/data/data_holder.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

static const char *base_of(const struct data_holder *holder)
{
	return holder->base ? holder->base : "";
}

static bool holder_is_name(const char *text)
{
	size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") : 0;

	return n > 0 && n < DATA_NAME_MAX && text[n] == '\0';
}

static bool names_are_good(const struct data_holder *holder)
{
	return holder_is_name(holder->ns) && holder_is_name(holder->target) &&
	       (!base_of(holder)[0] || holder_is_name(holder->base));
}

int data_holder_check(const struct data_holder *holder, struct cairn_err *err)
{
	if (!holder->user || !holder->user[0] || !names_are_good(holder))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the request lacks a user or valid names of its objects");
	return 0;
}

char *data_holder_text(const struct data_holder *holder)
{
	/* The user comes last: a Kubernetes name has no line break, but a user name may. */
	return cairn_printf("%s\n%s\n%s\n%s", holder->ns, holder->target, base_of(holder),
			    holder->user);
}

char *data_holder_token(const struct data_holder *holder, const char *driver_token)
{
	return cairn_printf("%s.%s:%s:%s", driver_token, holder->ns, holder->target,
			    base_of(holder));
}

int data_holder_split(char *token, const char **ret_driver_token, struct data_holder *ret,
		      struct cairn_err *err)
{
	char *ns = strchr(token, '.');
	char *target = ns ? strchr(ns, ':') : NULL;
	char *base = target ? strchr(target + 1, ':') : NULL;

	if (!base)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the data token is not valid");
	*ns++ = *target++ = *base++ = '\0';
	*ret = (struct data_holder){.ns = ns, .target = target, .base = base};
	if (!names_are_good(ret))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the data token is not valid");
	*ret_driver_token = token;
	return 0;
}
