/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/poly.h"

#include "base/err.h"
#include "base/random.h"

/* One polynomial in 53 is irreducible, so far fewer tries are needed. */
#define TRIES_MAX 100000

static int poly_degree(uint64_t a)
{
	return a ? 63 - __builtin_clzll(a) : -1;
}

static uint64_t poly_mod(uint64_t a, uint64_t m)
{
	int d = poly_degree(m);

	for (int i = poly_degree(a); i >= d; i = poly_degree(a))
		a ^= m << (i - d);
	return a;
}

/* Both below m, and m of degree 62 at most: nothing is shifted out. */
static uint64_t mul_mod(uint64_t a, uint64_t b, uint64_t m)
{
	uint64_t result = 0;

	for (; b; b >>= 1) {
		if (b & 1)
			result ^= a;
		a = poly_mod(a << 1, m);
	}
	return result;
}

static uint64_t poly_gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = poly_mod(a, b);

		a = b;
		b = rest;
	}
	return a;
}

/* Ben-Or: irreducible when it shares no factor with x^(2^i) - x for any i up to
 * half its degree. */
bool repo_poly_irreducible(uint64_t poly)
{
	uint64_t power = 2;
	int d = poly_degree(poly);

	if (d < 1 || d > 62)
		return false;
	for (int i = 0; i < d / 2; i++) {
		power = mul_mod(power, power, poly);
		if (poly_gcd(poly, poly_mod(power ^ 2, poly)) != 1)
			return false;
	}
	return true;
}

int repo_poly_random(uint64_t *ret, struct cairn_err *err)
{
	for (int i = 0; i < TRIES_MAX; i++) {
		uint64_t poly;
		int rc = cairn_random_bytes(&poly, sizeof(poly), err);

		if (rc < 0)
			return rc;
		poly &= ((uint64_t)1 << REPO_POLY_DEGREE) - 1;
		poly |= (uint64_t)1 << REPO_POLY_DEGREE | 1;
		if (repo_poly_irreducible(poly)) {
			*ret = poly;
			return 0;
		}
	}
	return cairn_err_set(err, CAIRN_INTERNAL, "no irreducible polynomial found");
}
