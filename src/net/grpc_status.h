/* SPDX-License-Identifier: Apache-2.0 */

/* What an HTTP/2 failure means as a gRPC status, by gRPC's own tables. All
 * results are `enum cairn_code`. */
#ifndef CAIRN_NET_GRPC_STATUS_H
#define CAIRN_NET_GRPC_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a response that carries no grpc-status. */
int grpc_code_of_http(unsigned http_status);

/* Of an RST_STREAM or a connection error with this HTTP/2 error code. */
int grpc_code_of_h2_error(uint32_t h2_error);

/* The value of a grpc-status field; CAIRN_UNKNOWN for a number that is no
 * status; false when it is no number. */
bool grpc_status_parse(const char *text, size_t n, int *ret_code);

#endif
