/* SPDX-License-Identifier: Apache-2.0 */

/* The set of all our .proto files and cairn_test.proto, for test servers. */
#ifndef CAIRN_PROTO_TEST_DESCRIPTORS_H
#define CAIRN_PROTO_TEST_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t proto_test_set[];
extern const size_t proto_test_set_len;

#endif
