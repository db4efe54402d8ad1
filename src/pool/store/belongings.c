/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/belongings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/ids.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"
#include "pool/store/fileset.h"
#include "pool/store/store.h"

#define PROBE_ENDING "-probe"

bool pool_belongings_is_object(const char *id)
{
	size_t len = strlen(id);
	size_t cut = strlen(PROBE_ENDING);
	char plain[STORE_ID_MAX + 1];
	uint64_t volume, number;

	if (pool_ids_parse_volume(id, &volume) || pool_ids_parse_snapshot(id, &volume, &number))
		return true;
	if (len <= cut || len - cut > STORE_ID_MAX || strcmp(id + len - cut, PROBE_ENDING) != 0)
		return false;
	memcpy(plain, id, len - cut);
	plain[len - cut] = '\0';
	return pool_ids_parse_snapshot(plain, &volume, &number);
}

bool pool_belongings_is_set(const char *name)
{
	static const char digits[] = "0123456789";
	size_t n;

	if (strncmp(name, "set-", 4) != 0)
		return false;
	name += 4;
	n = strspn(name, digits);
	if (n == 0 || name[n] != '-')
		return false;
	name += n + 1;
	n = strspn(name, digits);
	return n > 0 && (name[n] == '\0' || strcmp(name + n, SETFILE_ASIDE) == 0);
}

static bool is_root_name(const char *name)
{
	static const char *const names[] = {"volumes", "snapshots", POOL_SETS_NAME,
					    POOL_RESERVE_NAME, "lost+found"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return strncmp(name, "catalogue.db", strlen("catalogue.db")) == 0 ||
	       strncmp(name, ".cairn-", strlen(".cairn-")) == 0;
}

/* Matches an id followed by the suffix of an object that is half-made,
 * half-removed or in quarantine. */
static bool is_object_entry(const char *name)
{
	size_t n = strcspn(name, ".");
	char id[STORE_ID_MAX + 1];

	if (n > STORE_ID_MAX ||
	    (name[n] && strcmp(name + n, ".new") != 0 && strcmp(name + n, ".del") != 0 &&
	     strcmp(name + n, FILESET_ASIDE) != 0))
		return false;
	memcpy(id, name, n);
	id[n] = '\0';
	return pool_belongings_is_object(id);
}

static void belongings_closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int find_in(int root_fd, const char *name, bool (*is_ours)(const char *name), char **ret,
		   struct cairn_err *err)
{
	cairn_cleanup(belongings_closedirp) DIR *dir = NULL;
	int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *entry;

	if (fd < 0 && errno == ENOENT)
		return 0;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int saved = errno;

		cairn_closep(&fd);
		return cairn_err_sys(err, saved, "list '%s'", name);
	}
	for (errno = 0; (entry = readdir(dir)); errno = 0) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    is_ours(entry->d_name))
			continue;
		*ret = strcmp(name, ".") == 0 ? cairn_strdup(entry->d_name)
					      : cairn_printf("%s/%s", name, entry->d_name);
		return *ret ? 0 : cairn_err_nomem(err, "path");
	}
	return errno ? cairn_err_sys(err, errno, "list '%s'", name) : 0;
}

int pool_belongings_find_foreign(int root_fd, char **ret, struct cairn_err *err)
{
	static const struct {
		const char *dir;
		bool (*is_ours)(const char *name);
	} places[] = {
		{".", is_root_name},
		{"volumes", is_object_entry},
		{"snapshots", is_object_entry},
		{POOL_SETS_NAME, pool_belongings_is_set},
	};
	char *found = NULL;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
		int rc = find_in(root_fd, places[i].dir, places[i].is_ours, &found, err);

		if (rc)
			return rc;
	}
	*ret = found;
	return 0;
}
