/* SPDX-License-Identifier: Apache-2.0 */

/* Polynomials over GF(2): the config must hold an irreducible one of degree 53 for
 * restic's own chunker. We cut by other rules, but restic uses it for file backups
 * into the same repository. Bit i is the coefficient of x^i. */
#ifndef CAIRN_REPO_POLY_H
#define CAIRN_REPO_POLY_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

#define REPO_POLY_DEGREE 53

bool repo_poly_irreducible(uint64_t poly);
int repo_poly_random(uint64_t *ret, struct cairn_err *err);

#endif
