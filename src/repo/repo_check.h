/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that a repository is complete and intact.
 *
 * The structure: every index, every snapshot, every reachable tree, every blob that a
 * file needs in an index, every pack present with the size that its index implies,
 * sizes of files equal to the sum of their content. With `read_data` also every byte of
 * every pack: its hash, its header against the index, every blob's authentication code,
 * size and hash.
 *
 * Losses are reported by snapshot and file, with the ranges. A repair removes missing
 * and damaged packs from the index: blobs that can still be read are stored again, the
 * others are listed in the index as lost (index_file.h), so that the next backup stores
 * them again if the volume still has them. The order is: new packs, new index, old
 * index, damaged packs; after a crash at any point the next repair completes the work.
 */
#ifndef CAIRN_REPO_CHECK_H
#define CAIRN_REPO_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct repo;

struct repo_snapshot;

struct repo_range {
	uint64_t offset, length;
};
#define REPO_DAMAGE_RANGES 8

/* The lost parts of one file or directory of a snapshot. */
struct repo_damage {
	const struct repo_snapshot *snapshot;
	const char *path;
	bool directory;   /* its list of entries is lost */
	uint64_t size;    /* of the file */
	uint64_t content; /* the sum of its blobs' sizes; the file is wrong if that differs from
			   * `size` */
	uint64_t lost;    /* bytes of it */
	/* The first lost ranges, and how many more there are. Offsets after a blob of
	 * unknown size are unknown; such ranges are left out. */
	struct repo_range ranges[REPO_DAMAGE_RANGES];
	size_t n_ranges;
	uint64_t more_ranges;
	bool unknown; /* ranges were left out: `lost` is right, the list is not complete */
};

/* Which packs are read. Part n of m always consists of the same packs, so that m checks
 * read everything once, with the same division as restic. The other kinds of subset are
 * random. */
struct repo_subset {
	uint32_t part, parts; /* part 1 to `parts`; 0 parts: use the other fields */
	double share;         /* above 0 to 1, of the packs' bytes */
	uint64_t bytes;       /* with share 0: this many bytes of packs; 0: all packs */
};

#define REPO_SUBSET_PARTS_MAX 256U

/* "2/5", "10%" or "20G".
 *
 * CAIRN_INVALID  not one of these
 */
int repo_subset_parse(const char *text, struct repo_subset *ret, struct cairn_err *err);

struct repo_check_options {
	bool read_data;
	struct repo_subset subset; /* {0}: all */
	bool repair;               /* needs the exclusive lock */
	/* Check only what this snapshot needs; NULL: everything. */
	const struct repo_id *snapshot;
	/* Called for each problem, from one thread at a time; must not call the
	 * repository. `text` names the file. */
	void (*problem)(void *arg, int code, const char *text);
	/* Called for each file that cannot be restored; NULL: they are reported as
	 * problems. */
	void (*damage)(void *arg, const struct repo_damage *damage);
	/* Items done and total; bytes if the step is REPO_CHECK_DATA. */
	void (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
	void *arg;
};

#define REPO_CHECK_DATA "data"

struct repo_check_stats {
	uint64_t problems;
	uint64_t snapshots, trees, files, packs, blobs;
	uint64_t packs_unknown; /* in no index: left by a writer that died; not a problem */
	uint64_t bytes_read;
	uint64_t snapshots_damaged; /* of which data is lost */
	/* Of a repair: packs removed from the index, blobs of these that were stored
	 * again, and blobs that are lost. */
	uint64_t packs_dropped, blobs_saved, blobs_lost;
};

/* Loads the index itself, file by file. Returns 0 when the check was completed,
 * whatever it found: see ret->problems. Any kind of lock is sufficient.
 *
 * CAIRN_CANCELLED     requested (repo_store_options.cancelled)
 * CAIRN_DATA_LOSS     repair, but the store lists no packs: nothing was changed
 * CAIRN_PRECONDITION  repair without the exclusive lock
 */
int repo_check(struct repo *repo, const struct repo_check_options *options,
	       struct repo_check_stats *ret, struct cairn_err *err);

#endif
