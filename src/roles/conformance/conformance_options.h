/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn conformance`, which are those of its suite; its flags fill them. */
#ifndef CAIRN_ROLES_CONFORMANCE_OPTIONS_H
#define CAIRN_ROLES_CONFORMANCE_OPTIONS_H

struct suite_options;

extern struct suite_options conformance_options;

#endif
