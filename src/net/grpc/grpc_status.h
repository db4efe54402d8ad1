/* SPDX-License-Identifier: Apache-2.0 */

/* Maps HTTP/2 failures to gRPC status codes, by gRPC's own tables. All results
 * are `enum cairn_code`. */
#ifndef CAIRN_NET_GRPC_STATUS_H
#define CAIRN_NET_GRPC_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For a response without grpc-status. */
int grpc_code_of_http(unsigned http_status);

/* For an RST_STREAM or a connection error with this HTTP/2 error code. */
int grpc_code_of_h2_error(uint32_t h2_error);

/* The value of a grpc-status field; CAIRN_UNKNOWN for a number that is not a
 * status; false when it is not a number. */
bool grpc_status_parse(const char *text, size_t n, int *ret_code);

/* The codes as labels of metrics: names as in grpc-go, in the order of their numbers; the last
 * stands for all other numbers, and NULL follows. */
extern const char *const net_grpc_status_labels[];

/* The label of a status as it is on the wire: 0 to 16. */
const char *net_grpc_status_label(int status);

#endif
