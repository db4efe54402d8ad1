/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/subject.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/repo_snapshot.h"

enum kind { KIND_FOREIGN, KIND_FILE, KIND_VOLUME };

struct member {
	const char *host, *name;
	enum kind kind;
	struct backup_record record;
	const char *place; /* the pool's directory if it distinguishes pools of one id, else "" */
	int64_t time_ns;
	size_t i; /* in the caller's list */
};

/* Disjoint sets: up[i] is another member of i's set, or i itself for the one that names it. */
struct sets {
	size_t *up;
};

static size_t set_of(const struct sets *sets, size_t i)
{
	while (sets->up[i] != i) {
		sets->up[i] = sets->up[sets->up[i]];
		i = sets->up[i];
	}
	return i;
}

static void set_join(const struct sets *sets, size_t a, size_t b)
{
	sets->up[set_of(sets, a)] = set_of(sets, b);
}

const char *backup_subject_name(const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);

	return record.ours ? record.volume : record.path;
}

static int compare_name(const struct member *a, const struct member *b)
{
	int order = strcmp(a->host, b->host);

	if (order == 0)
		order = (a->kind > b->kind) - (a->kind < b->kind);
	return order ? order : strcmp(a->name, b->name);
}

static int subject_by_volume(const void *a, const void *b)
{
	const struct member *left = a, *right = b;
	int order = compare_name(left, right);

	if (order == 0)
		order = strcmp(left->record.volume_id, right->record.volume_id);
	return order ? order : strcmp(left->place, right->place);
}

static int compare_pool(const struct member *a, const struct member *b)
{
	int order = strcmp(a->record.pool_id, b->record.pool_id);

	return order ? order : strcmp(a->place, b->place);
}

static int subject_by_pool(const void *a, const void *b)
{
	const struct member *left = a, *right = b;
	int order = compare_name(left, right);

	return order ? order : compare_pool(left, right);
}

static int subject_by_time(const void *a, const void *b)
{
	const struct member *left = a, *right = b;
	int order = subject_by_pool(a, b);

	return order ? order : (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

/* True if the backups of one pool id, sorted by time, are from several pools. */
static bool is_several(const struct member *members, size_t n, enum backup_subject_use use)
{
	for (size_t i = 1; i < n; i++) {
		const char *dir = members[i].record.pool_dir;

		if (strcmp(dir, members[i - 1].record.pool_dir) == 0)
			continue;
		if (use == BACKUP_SUBJECT_TO_FORGET)
			return true;
		for (size_t k = 0; k < i; k++)
			if (strcmp(dir, members[k].record.pool_dir) == 0)
				return true;
	}
	return false;
}

static void distinguish_copies(struct member *members, size_t n, enum backup_subject_use use)
{
	qsort(members, n, sizeof(*members), subject_by_time);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n; end++)
			if (subject_by_pool(&members[i], &members[end]) != 0)
				break;
		if (!*members[i].record.pool_id || !is_several(&members[i], end - i, use))
			continue;
		for (size_t k = i; k < end; k++)
			members[k].place = members[k].record.pool_dir;
	}
}

static void join_equal(const struct sets *sets, struct member *members, size_t n,
		       int (*compare)(const void *, const void *))
{
	qsort(members, n, sizeof(*members), compare);
	for (size_t i = 1; i < n; i++) {
		bool known = compare == subject_by_volume ? *members[i].record.volume_id != '\0'
							  : *members[i].record.pool_id != '\0';

		if (known && compare(&members[i - 1], &members[i]) == 0)
			set_join(sets, members[i - 1].i, members[i].i);
	}
}

/* The backups of one pool among those of one name. */
struct pool_span {
	const struct member *first; /* one of them in the newest directory */
	int64_t from_ns, to_ns;
	size_t end; /* the index of the next pool */
};

/* `members` are sorted by pool. */
static struct pool_span span_of(const struct member *members, size_t start, size_t n)
{
	struct pool_span span = {.first = &members[start],
				 .from_ns = members[start].time_ns,
				 .to_ns = members[start].time_ns,
				 .end = start + 1};

	for (; span.end < n && compare_pool(&members[span.end], &members[start]) == 0; span.end++) {
		const struct member *member = &members[span.end];

		if (member->time_ns > span.to_ns) {
			span.to_ns = member->time_ns;
			span.first = member;
		}
		if (member->time_ns < span.from_ns)
			span.from_ns = member->time_ns;
	}
	return span;
}

static bool is_same_place(const struct pool_span *a, const struct pool_span *b)
{
	return *a->first->record.pool_dir &&
	       strcmp(a->first->record.pool_dir, b->first->record.pool_dir) == 0;
}

/* True if another pool in the directory has backups of the same period, so that neither was lost
 * when the other was created: disks that are mounted in turn. */
static bool takes_turns(const struct pool_span *span, const struct member *members, size_t start,
			size_t n)
{
	for (size_t i = start; i < n;) {
		struct pool_span other = span_of(members, i, n);

		if (other.end != span->end && is_same_place(span, &other) &&
		    span->to_ns >= other.from_ns && other.to_ns >= span->from_ns)
			return true;
		i = other.end;
	}
	return false;
}

/* A pool that was lost and created again in its directory has a new id. Two pools that exist at
 * the same time, one of them moved, have backups at alternating times; a third one must not
 * connect them. */
static void join_successors(const struct sets *sets, const struct member *members, size_t n)
{
	size_t start = 0;

	while (start < n && !*members[start].record.pool_id)
		start++;
	for (size_t i = start; i < n;) {
		struct pool_span a = span_of(members, i, n);
		bool alone = !takes_turns(&a, members, start, n);

		for (size_t k = a.end; k < n && alone;) {
			struct pool_span b = span_of(members, k, n);

			if (is_same_place(&a, &b) && !takes_turns(&b, members, start, n))
				set_join(sets, a.first->i, b.first->i);
			k = b.end;
		}
		i = a.end;
	}
}

/* Joins the members without a pool among those of one name, which are sorted by pool: to the
 * only pool, otherwise to each other. */
static void join_without_pool(const struct sets *sets, const struct member *members, size_t n)
{
	const struct member *other = NULL;
	size_t bare = 0;

	while (bare < n && !*members[bare].record.pool_id)
		bare++;
	for (size_t i = bare; i < n; i++)
		if (set_of(sets, members[i].i) != set_of(sets, members[bare].i))
			other = &members[i];
	for (size_t i = 0, first = n; i < bare; i++) {
		bool connected = false;

		for (size_t k = bare; k < n && other && !connected; k++)
			connected = set_of(sets, members[i].i) == set_of(sets, members[k].i);
		if (connected)
			continue;
		if (bare < n && !other)
			set_join(sets, members[i].i, members[bare].i);
		else if (first < n)
			set_join(sets, members[i].i, members[first].i);
		else
			first = i;
	}
}

static void join_all(const struct sets *sets, struct member *members, size_t n)
{
	join_equal(sets, members, n, subject_by_volume);
	join_equal(sets, members, n, subject_by_pool);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n; end++)
			if (compare_name(&members[i], &members[end]) != 0)
				break;
		join_successors(sets, members + i, end - i);
		join_without_pool(sets, members + i, end - i);
	}
}

static struct member member_of(const struct repo_snapshot *snapshot, size_t i)
{
	struct member member = {.host = snapshot->hostname ? snapshot->hostname : "",
				.name = backup_subject_name(snapshot),
				.record = backup_record_of(snapshot),
				.place = "",
				.time_ns = snapshot->time_ns,
				.i = i};

	if (member.record.ours)
		member.kind = backup_record_is_file(&member.record) ? KIND_FILE : KIND_VOLUME;
	return member;
}

int backup_subject_number(struct repo_snapshot *const *items, size_t n, enum backup_subject_use use,
			  size_t **ret, struct cairn_err *err)
{
	cairn_auto_free struct member *members = cairn_calloc(n + 1, sizeof(*members));
	cairn_auto_free size_t *up = cairn_calloc(n + 1, sizeof(*up));
	struct sets sets = {up};

	if (!members || !up)
		return cairn_err_nomem(err, "list of backups");
	for (size_t i = 0; i < n; i++) {
		members[i] = member_of(items[i], i);
		up[i] = i;
	}
	distinguish_copies(members, n, use);
	join_all(&sets, members, n);
	for (size_t i = 0; i < n; i++)
		up[i] = set_of(&sets, i);
	*ret = cairn_take(up);
	return 0;
}
