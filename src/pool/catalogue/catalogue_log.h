/* SPDX-License-Identifier: Apache-2.0 */

/* The frames of an SQLite write-ahead log, by SQLite's file format
 * (https://www.sqlite.org/fileformat2.html#walformat): a header, then frames of
 * one page each, whose checksums form a chain. Recovery accepts the longest
 * prefix of frames with valid checksums. */
#ifndef CAIRN_POOL_CATALOGUE_LOG_H
#define CAIRN_POOL_CATALOGUE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define CATALOGUE_LOG_HEADER      32
#define CATALOGUE_LOG_SALT_OFFSET 16 /* in the header */
#define CATALOGUE_LOG_FRAME       24 /* header of a frame, before its page */

#define CATALOGUE_PAGE_MAX 65536U

/* The salt in the header of a log, CATALOGUE_LOG_HEADER bytes; false when the header
 * is damaged. */
bool pool_catalogue_log_salt(const uint8_t *header, uint8_t *ret_salt);

/* The page number in this frame header of CATALOGUE_LOG_FRAME bytes, if it is the
 * last frame of a transaction; otherwise 0. */
uint32_t pool_catalogue_log_last_page(const uint8_t *frame);

/* False when the log holds no complete transaction; true also when it cannot be read.
 * In a log with this salt, only those count that end after this offset. `salt` may be
 * NULL. */
bool pool_catalogue_log_has_commit(int fd, const uint8_t *salt, uint64_t after);

/* Finds the end of the valid frames; 0 when not even the header is valid. With
 * `rewrite`, all of it is written again in place with identical bytes, so that its
 * pages are dirty whatever happened to them before. -1 with errno set when a call
 * failed. */
int pool_catalogue_log_walk(int fd, bool rewrite, int64_t *ret_end);

#endif
