/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes requests to the REST server: paths and their queries.
 *
 *   /NAMESPACE/NAME            the blocks of a DifferentialSnapshot
 *   /namespaces/NAMESPACE/diff?base=NAME&target=NAME
 *                              the same for two VolumeSnapshots, without one
 *
 * both with startOffset, maxEntries and fieldNames; the second also with volumeId, mode and
 * parameters.KEY. nextOffset is startOffset, and the names of the object's fields
 * (baseVolumeSnapshotName) are base and target. Names may have any case, except KEY; a name that
 * is not known, one that is given twice and one without a value are refused, because a client
 * whose misspelt or empty offset was ignored would read the first page again and again. Only
 * the value of a KEY, which is the driver's, may be empty. Text in, a struct out.
 */
#ifndef CAIRN_DIFFSNAP_QUERY_H
#define CAIRN_DIFFSNAP_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define DIFFSNAP_NAME_MAX       253U
#define DIFFSNAP_TEXT_MAX       128U
#define DIFFSNAP_VALUE_MAX      1024U
#define DIFFSNAP_PARAMETERS_MAX 16U

struct diffsnap_parameter {
	char key[DIFFSNAP_TEXT_MAX + 1];
	char value[DIFFSNAP_VALUE_MAX + 1];
};

struct diffsnap_query {
	bool direct; /* the second path */
	char ns[DIFFSNAP_NAME_MAX + 1];
	char name[DIFFSNAP_NAME_MAX + 1];   /* of the first path */
	char base[DIFFSNAP_NAME_MAX + 1];   /* of the second; "" if not given */
	char target[DIFFSNAP_NAME_MAX + 1]; /* of the second */
	char volume_id[DIFFSNAP_TEXT_MAX + 1];
	char mode[DIFFSNAP_TEXT_MAX + 1];
	bool has_start;
	char start_offset[DIFFSNAP_TEXT_MAX + 1];
	uint64_t max_entries; /* 0: not given */
	bool camel_case;      /* names of the answer: changeBlockList, not ChangeBlockList */
	struct diffsnap_parameter parameters[DIFFSNAP_PARAMETERS_MAX];
	size_t n_parameters;
};

/* `path` is percent-decoded, `query` is not.
 *
 * CAIRN_NOT_FOUND  no such path
 * CAIRN_INVALID    an invalid Kubernetes name, a missing target,
 *                  an invalid number, an unknown parameter, one that is given twice
 *                  or is empty, or too many parameters
 */
int diffsnap_query_parse(const char *path, const char *query, struct diffsnap_query *ret,
			 struct cairn_err *err);

#endif
