/* SPDX-License-Identifier: Apache-2.0 */

/* The .proto files that a server returns by reflection.
 *
 * A set is a serialized FileDescriptorSet, made by protoc at build time and linked in.
 * Queries are rare and sets small, so each query scans the bytes: there is no index, no
 * allocation and no state. The sets are our own, never a peer's; a scan of damaged bytes
 * still ends and finds nothing.
 */
#ifndef CAIRN_PROTO_DESCRIPTORS_H
#define CAIRN_PROTO_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proto_bytes {
	const uint8_t *data;
	size_t len;
};

/* Limit of the files in one answer: every set of ours is far smaller. */
#define PROTO_FILES_MAX 64

/* The protocols of all roles of cairn: csi.v1, cairn.v1, snapshotmetadata and its older
 * flavour, grpc.health.v1, grpc.reflection.v1 and their imports. */
struct proto_bytes proto_descriptors_cairn(void);

/* Finds a FileDescriptorProto by its file name. */
bool proto_file_by_name(const struct proto_bytes *sets, size_t n, const char *name,
			struct proto_bytes *ret_file);

/* Finds the file that defines a service, method, message or enum by its full
 * name, such as "csi.v1.Identity.Probe". */
bool proto_file_by_symbol(const struct proto_bytes *sets, size_t n, const char *symbol,
			  struct proto_bytes *ret_file);

/* Returns `file` and everything it imports, each once, `file` first; returns the number. */
size_t proto_file_closure(const struct proto_bytes *sets, size_t n, struct proto_bytes file,
			  struct proto_bytes ret_files[PROTO_FILES_MAX]);

#endif
