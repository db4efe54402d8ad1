/* SPDX-License-Identifier: Apache-2.0 */

/* Is everything there, and is it what was written?
 *
 * The structure: every index, every snapshot, every tree reachable, every blob a
 * file needs in an index, every pack there with the size its index says, sizes
 * of files equal to the sum of their content. With `read_data` also every byte
 * of every pack: its hash, its header against the index, every blob's
 * authentication code, size and hash.
 *
 * What is lost is told by snapshot and file, with the ranges. A repair takes packs that
 * are gone or damaged out of the index: what can still be read of them is stored anew,
 * what cannot is named in the index as lost (index_file.h), so that the next backup
 * stores it again where the volume still has it. In this order: new packs, new index,
 * old index, damaged packs; after a crash at any point the next repair ends the work.
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

/* What is lost of one file or directory of a snapshot. */
struct repo_damage {
	const struct repo_snapshot *snapshot;
	const char *path;
	bool directory;   /* the list of what is in it is lost */
	uint64_t size;    /* of the file */
	uint64_t content; /* what its blobs add up to; another than `size`, it is wrong */
	uint64_t lost;    /* bytes of it */
	/* The first ranges of these, and how many more there are. Behind a blob whose size
	 * is not known any more, offsets are not either: then they are left out. */
	struct repo_range ranges[REPO_DAMAGE_RANGES];
	size_t n_ranges;
	uint64_t more_ranges;
	bool unknown; /* it is so: `lost` is right, the ranges are not all */
};

/* Which packs are read. Those of part n of m are always the same, so that m checks read
 * everything once; as restic divides them. Others are chosen by chance. */
struct repo_subset {
	uint32_t part, parts; /* part 1 to `parts`; 0 parts: by the rest */
	double share;         /* above 0 to 1, of the packs' bytes */
	uint64_t bytes;       /* with share 0: so many bytes of them; 0: all packs */
};

#define REPO_SUBSET_PARTS_MAX 256U

/* "2/5", "10%" or "20G".
 *
 * CAIRN_INVALID  none of these
 */
int repo_subset_parse(const char *text, struct repo_subset *ret, struct cairn_err *err);

struct repo_check_options {
	bool read_data;
	struct repo_subset subset; /* {0}: all */
	bool repair;               /* needs the exclusive lock */
	/* Only what this snapshot needs; NULL: all. */
	const struct repo_id *snapshot;
	/* Called for each problem, from one thread at a time; must not call the
	 * repository. `text` names the file. */
	void (*problem)(void *arg, int code, const char *text);
	/* Called for each file that cannot be restored; NULL: each is told as a problem. */
	void (*damage)(void *arg, const struct repo_damage *damage);
	/* Things done, of how many; bytes where the step is REPO_CHECK_DATA. */
	void (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
	void *arg;
};

#define REPO_CHECK_DATA "data"

struct repo_check_stats {
	uint64_t problems;
	uint64_t snapshots, trees, files, packs, blobs;
	uint64_t packs_unknown; /* in no index: left by a writer that died; no problem */
	uint64_t bytes_read;
	uint64_t snapshots_damaged; /* of which something is lost */
	/* Of a repair: packs taken out of the index, blobs of these that were stored anew,
	 * and those that are lost. */
	uint64_t packs_dropped, blobs_saved, blobs_lost;
};

/* Loads the index itself, file by file. 0 when it ran to its end, whatever it
 * found: look at ret->problems. Any lock will do.
 *
 * CAIRN_CANCELLED     asked for (repo_store_options.cancelled)
 * CAIRN_DATA_LOSS     to be repaired, and the store lists no packs: nothing was changed
 * CAIRN_PRECONDITION  to be repaired without the exclusive lock
 */
int repo_check(struct repo *repo, const struct repo_check_options *options,
	       struct repo_check_stats *ret, struct cairn_err *err);

#endif
