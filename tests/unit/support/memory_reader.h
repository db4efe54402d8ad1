/* SPDX-License-Identifier: Apache-2.0 */

/* A reader of bytes in memory, for sources of backups that a test makes up. */
#ifndef CAIRN_TESTS_UNIT_MEMORY_READER_H
#define CAIRN_TESTS_UNIT_MEMORY_READER_H

#include <stdint.h>

#include "pool/store/store.h"

/* The bytes are borrowed until it is freed, by pool_store_reader_free(). */
struct store_reader *memory_reader_new(const uint8_t *bytes, uint64_t size);

#endif
