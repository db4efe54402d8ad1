/* SPDX-License-Identifier: Apache-2.0 */

/* Pools on a Ceph cluster: images hold the data, an object's omap the catalogue.
 *
 * An address is "rbd:POOL[/NAMESPACE][:id=USER][:conf=FILE][:device=KIND]" (KIND:
 * rbd_mapping.h); without `conf` and `id` the usual files and variables of Ceph apply ($CEPH_CONF, /etc/ceph/ceph.conf, $CEPH_ARGS).
 * Where the program was built without the headers of librbd, every operation is
 * CAIRN_UNIMPLEMENTED.
 */
#ifndef CAIRN_POOL_RBD_SITE_H
#define CAIRN_POOL_RBD_SITE_H

#define RBD_ADDRESS_PREFIX "rbd:"

struct pool_site_ops;
extern const struct pool_site_ops rbd_site;

#endif
