/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_names.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <openssl/ssl.h>

#include "base/err.h"

struct name {
	const char *go;
	const char *openssl; /* NULL: accepted without effect */
};

static const struct name suites[] = {
	{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
	{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
	{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
	{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
	{"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
	{"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
	{"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
	{"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
	{"TLS_AES_128_GCM_SHA256", NULL},
	{"TLS_AES_256_GCM_SHA384", NULL},
	{"TLS_CHACHA20_POLY1305_SHA256", NULL},
};

/* Listed so that the message can say more than "unknown". */
static const char *const insecure_suites[] = {
	"TLS_RSA_WITH_RC4_128_SHA",
	"TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	"TLS_RSA_WITH_AES_128_CBC_SHA",
	"TLS_RSA_WITH_AES_256_CBC_SHA",
	"TLS_RSA_WITH_AES_128_CBC_SHA256",
	"TLS_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
	"TLS_ECDHE_RSA_WITH_RC4_128_SHA",
	"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
};

static const struct name curves[] = {
	{"X25519", "X25519"},
	{"CurveP256", "P-256"},
	{"CurveP384", "P-384"},
	{"CurveP521", "P-521"},
	{"X25519MLKEM768", "X25519MLKEM768"},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

_Static_assert(COUNT(suites) <= 32 && COUNT(curves) <= 32, "names seen are bits of a word");

int net_tls_version_parse(const char *name, int *ret_version, struct cairn_err *err)
{
	if (!name || !*name || strcmp(name, "VersionTLS12") == 0)
		*ret_version = TLS1_2_VERSION;
	else if (strcmp(name, "VersionTLS13") == 0)
		*ret_version = TLS1_3_VERSION;
	else if (strcmp(name, "VersionTLS10") == 0 || strcmp(name, "VersionTLS11") == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "TLS version %s is insecure and not offered; use VersionTLS12 "
				     "or VersionTLS13",
				     name);
	else
		return cairn_err_set(err, CAIRN_INVALID,
				     "unknown TLS version '%.64s'; use VersionTLS12 or "
				     "VersionTLS13",
				     name);
	return 0;
}

struct piece {
	const char *text;
	size_t len;
};

static struct piece tls_names_trim(const char *text, size_t len)
{
	while (len > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	return (struct piece){text, len};
}

static bool tls_names_is(struct piece piece, const char *name)
{
	return strlen(name) == piece.len && memcmp(name, piece.text, piece.len) == 0;
}

static int tls_names_unknown(const char *what, struct piece piece, struct cairn_err *err)
{
	int shown = piece.len > 64 ? 64 : (int)piece.len;

	for (size_t i = 0; i < COUNT(insecure_suites); i++)
		if (tls_names_is(piece, insecure_suites[i]))
			return cairn_err_set(err, CAIRN_INVALID,
					     "%s %.*s is insecure and not offered", what, shown,
					     piece.text);
	return cairn_err_set(err, CAIRN_INVALID, "unknown %s '%.*s'", what, shown, piece.text);
}

/* The output so far: names with colons between them. */
struct joined {
	char *text;
	size_t len, cap;
};

static int tls_names_join(struct joined *out, const char *name, struct cairn_err *err)
{
	size_t n = strlen(name);

	if (out->len + n + 2 > out->cap)
		return cairn_err_set(err, CAIRN_INVALID, "list of names is too long");
	if (out->len > 0)
		out->text[out->len++] = ':';
	memcpy(out->text + out->len, name, n + 1);
	out->len += n;
	return 0;
}

static int parse_one(const char *what, struct piece piece, const struct name *names, size_t n,
		     uint32_t *seen, struct joined *out, struct cairn_err *err)
{
	size_t i = 0;

	if (piece.len == 0)
		return cairn_err_set(err, CAIRN_INVALID, "an empty %s in the list", what);
	while (i < n && !tls_names_is(piece, names[i].go))
		i++;
	if (i == n)
		return tls_names_unknown(what, piece, err);
	if (*seen & 1U << i)
		return cairn_err_set(err, CAIRN_INVALID, "%s %s is given twice", what, names[i].go);
	*seen |= 1U << i;
	return names[i].openssl ? tls_names_join(out, names[i].openssl, err) : 0;
}

static int tls_names_parse_list(const char *what, const char *list, const struct name *names,
				size_t n, struct joined *out, struct cairn_err *err)
{
	uint32_t seen = 0;

	if (strlen(list) > NET_TLS_LIST_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "list of names is too long");
	out->text[0] = 0;
	for (;;) {
		size_t len = strcspn(list, ",");
		int rc = parse_one(what, tls_names_trim(list, len), names, n, &seen, out, err);

		if (rc < 0)
			return rc;
		if (!list[len])
			return 0;
		list += len + 1;
	}
}

int net_tls_ciphers_parse(const char *list, char *ret_list, size_t cap, struct cairn_err *err)
{
	struct joined out = {.text = ret_list, .cap = cap};

	return tls_names_parse_list("TLS cipher suite", list, suites, COUNT(suites), &out, err);
}

int net_tls_curves_parse(const char *list, char *ret_list, size_t cap, struct cairn_err *err)
{
	struct joined out = {.text = ret_list, .cap = cap};

	return tls_names_parse_list("TLS curve", list, curves, COUNT(curves), &out, err);
}
