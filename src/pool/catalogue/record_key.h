/* SPDX-License-Identifier: Apache-2.0 */

/* Keys of the catalogue as bytes: a letter, and parts separated by slashes. */
#ifndef CAIRN_POOL_LEDGER_KEY_H
#define CAIRN_POOL_LEDGER_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/catalogue/catalogue.h"
#include "pool/pool.h"

#define LEDGER_HEX 16U

struct ledger_key {
	char text[CATALOGUE_KEY_MAX];
	size_t len;
};

struct ledger_key pool_records_key_kind(char kind);                         /* "k/" */
struct ledger_key pool_records_key_number(char kind, uint64_t a);           /* "k/<a>" */
struct ledger_key pool_records_key_pair(char kind, uint64_t a, uint64_t b); /* "k/<a>/<b>" */
struct ledger_key pool_records_key_under(char kind, uint64_t a);            /* "k/<a>/" */
struct ledger_key pool_records_key_text(char kind, const char *text);       /* "k/text" */
struct ledger_key pool_records_key_named(char kind, uint64_t a,
					 const char *text); /* "k/<a>/text" */

struct catalogue_bytes pool_records_key_bytes(const struct ledger_key *key);

/* Sixteen hex digits at `at`; false when they are not all there. */
bool pool_records_key_parse_hex(const char *at, size_t n, uint64_t *ret);

#endif
