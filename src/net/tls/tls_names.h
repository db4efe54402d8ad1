/* SPDX-License-Identifier: Apache-2.0 */

/* TLS settings by the names that Kubernetes components use.
 *
 * Those are the names of Go's crypto/tls; administrators use them in the flags
 * of every component. Only suites that Go considers secure are supported. Lists
 * are separated by commas; spaces around a name are allowed.
 */
#ifndef CAIRN_NET_TLS_NAMES_H
#define CAIRN_NET_TLS_NAMES_H

#include <stddef.h>

struct cairn_err;

/* Longest list accepted. Names come from flags and files, not from peers; a
 * list of all names is much shorter. */
#define NET_TLS_LIST_MAX 2048

/* "VersionTLS12" or "VersionTLS13" to OpenSSL's number; NULL or "" is 1.2.
 *
 * CAIRN_INVALID  anything else; old versions get a specific message
 */
int net_tls_version_parse(const char *name, int *ret_version, struct cairn_err *err);

/* Suite names to OpenSSL's cipher list for TLS 1.2. The names of TLS 1.3 suites
 * are accepted but have no effect, as in Go: those suites are always enabled.
 * The result is empty when there are only such names.
 *
 * CAIRN_INVALID  a name that is unknown or insecure, given twice, or missing
 *                between two commas; an empty list
 */
int net_tls_ciphers_parse(const char *list, char *ret_list, size_t cap, struct cairn_err *err);

/* Curve names (X25519, CurveP256, CurveP384, CurveP521, X25519MLKEM768) to
 * OpenSSL's list of groups. Whether OpenSSL supports a group is checked later,
 * when the list is used. Fails like net_tls_ciphers_parse(). */
int net_tls_curves_parse(const char *list, char *ret_list, size_t cap, struct cairn_err *err);

#endif
