/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/lock_list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "repo/instant.h"
#include "repo/names.h"
#include "repo/repo_impl.h"
#include "repo/repo_json.h"
#include "repo/repo_lock.h"

static void lock_list_copy_text(char *out, size_t max, const json_t *value)
{
	const char *text = json_string_value(value);

	snprintf(out, max, "%s", text ? text : "");
}

int repo_lock_decode(const char *json, size_t n, struct repo_lock_info *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_json_freep) json_t *root = json_loadb(json, n, 0, NULL);
	const char *time = json_string_value(json_object_get(root, "time"));
	const json_t *exclusive = json_object_get(root, "exclusive");
	struct repo_lock_info info = {0};

	if (!json_is_object(root) || !time ||
	    !repo_instant_parse(time, strlen(time), &info.time_ns))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "not a lock");
	info.exclusive = json_is_true(exclusive);
	info.pid = json_integer_value(json_object_get(root, "pid"));
	lock_list_copy_text(info.hostname, sizeof(info.hostname),
			    json_object_get(root, "hostname"));
	lock_list_copy_text(info.username, sizeof(info.username),
			    json_object_get(root, "username"));
	lock_list_copy_text(info.processes, sizeof(info.processes),
			    json_object_get(root, "processes"));
	*ret = info;
	return 0;
}

/* Process ids are comparable only within one boot and one pid namespace; `processes`
 * identifies both. */
struct repo_lock_view repo_lock_view_of(const char *host)
{
	struct repo_lock_view view = {.host = host};
	cairn_auto_free char *boot = NULL;
	char space[32] = "";
	size_t n = 0;

	if (cairn_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot, &n, NULL) < 0 ||
	    readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0)
		return view;
	snprintf(view.processes, sizeof(view.processes), "%.*s %s", (int)strcspn(boot, "\n"), boot,
		 space);
	return view;
}

bool repo_lock_stale(const struct repo_lock_info *info, int64_t now_ns,
		     const struct repo_lock_view *here)
{
	int64_t age;

	if (__builtin_sub_overflow(now_ns, info->time_ns, &age))
		age = 0;
	if (age > (int64_t)(REPO_LOCK_STALE_MS * CAIRN_NS_PER_MS))
		return true;
	if (strcmp(info->hostname, here->host) != 0 || info->pid <= 0 || info->pid > INT32_MAX)
		return false;
	if (info->processes[0] ? strcmp(info->processes, here->processes) != 0
			       : age <= (int64_t)(REPO_LOCK_SILENT_MS * CAIRN_NS_PER_MS))
		return false;
	return kill((pid_t)info->pid, 0) < 0 && errno == ESRCH;
}

/* Reads a lock; *ret_there is false if it was removed meanwhile. */
static int lock_list_load(struct repo *repo, const struct repo_id *name, struct repo_lock_info *ret,
			  bool *ret_there, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_LOCK_FILE_MAX);
	int rc = repo_file_load(repo, REPO_FILE_LOCK, name, &json, err);

	*ret_there = rc != CAIRN_NOT_FOUND;
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	return rc < 0 ? rc : repo_lock_decode((const char *)json.data, json.len, ret, err);
}

static int lock_list_refuse(const struct repo_lock_info *info, struct cairn_err *err)
{
	char time[REPO_INSTANT_TEXT_MAX];

	return cairn_err_set(err, CAIRN_ABORTED,
			     "the repository is locked%s by process %" PRId64
			     " of %s on %s since %s",
			     info->exclusive ? " exclusively" : "", info->pid, info->username,
			     info->hostname, repo_instant_format(info->time_ns, time));
}

/* An unreadable lock excludes operations that delete, because it may have a
 * holder. */
static int lock_list_look_at(struct repo *repo, const struct repo_id *name, bool exclusive,
			     struct cairn_err *err)
{
	struct repo_lock_view here;
	struct repo_lock_info info;
	struct cairn_err why = {0};
	bool is_there;
	int rc = lock_list_load(repo, name, &info, &is_there, &why);

	if (rc == CAIRN_DATA_LOSS && !exclusive)
		return 0;
	if (rc == CAIRN_DATA_LOSS)
		return cairn_err_set(err, CAIRN_ABORTED, "a lock cannot be read: %s", why.msg);
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (!is_there)
		return 0;
	here = repo_lock_view_of(repo->here);
	if (repo_lock_stale(&info, (int64_t)cairn_now_ns(), &here)) {
		/* The lock has no holder, whether or not we may remove it. */
		(void)repo_store_remove(repo->store, REPO_FILE_LOCK, name, NULL);
		return 0;
	}
	return exclusive || info.exclusive ? lock_list_refuse(&info, err) : 0;
}

int repo_lock_conflict(struct repo *repo, bool exclusive, const struct repo_id *own,
		       const struct repo_names *locks, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < locks->n; i++)
		if (!own || !repo_id_equal(own, &locks->items[i].name))
			rc = lock_list_look_at(repo, &locks->items[i].name, exclusive, err);
	return rc;
}

int repo_lock_clear(struct repo *repo, bool all, uint64_t *ret_removed, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct repo_lock_view here = repo_lock_view_of(repo->here);
	int rc = repo_names_list(repo->store, REPO_FILE_LOCK, &names, err);
	uint64_t removed = 0;

	for (size_t i = 0; rc == 0 && i < names.n; i++) {
		const struct repo_id *name = &names.items[i].name;
		struct repo_lock_info info;
		bool is_there, stale = all;

		if (!all) {
			rc = lock_list_load(repo, name, &info, &is_there, err);
			if (rc == CAIRN_DATA_LOSS) {
				rc = 0;
				continue;
			}
			stale = rc == 0 && is_there &&
				repo_lock_stale(&info, (int64_t)cairn_now_ns(), &here);
		}
		if (stale)
			rc = repo_store_remove(repo->store, REPO_FILE_LOCK, name, err);
		removed += stale && rc == 0;
	}
	if (ret_removed)
		*ret_removed = removed;
	return rc;
}
