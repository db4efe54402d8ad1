/* SPDX-License-Identifier: Apache-2.0 */

/* Encodings of values in gRPC's HTTP/2 fields. Bytes in, bytes out. */
#ifndef CAIRN_NET_GRPC_TEXT_H
#define CAIRN_NET_GRPC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Percent-encodes a status message: everything but printable ASCII, '%', and a
 * space at either end, which HTTP/2 does not allow there.
 * Writes at most 3 * n bytes to `out`; returns how many. */
size_t grpc_percent_encode(const char *text, size_t n, char *out);

/* The reverse; sequences that are not "%XX" are copied unchanged. Writes at
 * most `n` bytes; may work in place (out == text). */
size_t grpc_percent_decode(const char *text, size_t n, char *out);

#define GRPC_TIMEOUT_TEXT_MAX 12

/* grpc-timeout: 1 to 8 digits and one of H M S m u n. Nanoseconds; false when
 * malformed. */
bool grpc_timeout_parse(const char *text, size_t n, uint64_t *ret_ns);

/* Rounds up if eight digits are too few; NUL-terminated, returns the length. */
size_t grpc_timeout_format(uint64_t ns, char out[GRPC_TIMEOUT_TEXT_MAX]);

/* A legal metadata name: lower-case letters, digits, "-_.", not empty. */
bool grpc_name_valid(const char *name, size_t n);

/* True for names reserved by gRPC or HTTP/2: "grpc-…", ":…", content-type, te,
 * user-agent and the connection fields. */
bool grpc_name_reserved(const char *name, size_t n);

bool grpc_name_is_bin(const char *name, size_t n);

/* Printable ASCII, no blank at either end. */
bool grpc_value_valid(const char *value, size_t n);

/* "application/grpc", alone or followed by '+' or ';'. */
bool grpc_content_type_valid(const char *value, size_t n);

/* "/service/method", both parts not empty, printable, no further slash. */
bool grpc_path_valid(const char *path, size_t n);

#endif
