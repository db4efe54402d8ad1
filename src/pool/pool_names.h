/* SPDX-License-Identifier: Apache-2.0 */

/* Names and limits of the objects of a pool. */
#ifndef CAIRN_POOL_POOL_NAMES_H
#define CAIRN_POOL_POOL_NAMES_H

struct cairn_err;

#define POOL_DEFAULT_DIR          "/var/lib/cairn"
#define POOL_NAME_MAX             128U /* bytes, without the NUL */
#define POOL_RESTORING_MAX        64U  /* bytes of a backup's id that names an unfinished restore */
#define POOL_ID_MAX               64U  /* bytes, without the NUL */
#define POOL_SECTOR               512U /* a volume's size is a multiple of this */
#define POOL_VOLUME_SIZE_MAX      ((1ULL << 60)) /* what every back end can address */
#define POOL_GROUP_MAX            64U /* volumes in one group snapshot: frozen together */
#define POOL_RETENTION_DEFAULT_MS (90ULL * 24 * 3600 * 1000)
#define POOL_LOCK_WAIT_DEFAULT_MS 30000

/* CAIRN_INVALID for text that cannot be a name, or has the form of an id. `what`
 * is the kind of object, for the error text. */
int pool_name_check(const char *what, const char *name, struct cairn_err *err);

#endif
