/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to the data mover and BackupStorageLocations, which others write. The first byte
 * chooses which. A request that is accepted has names that are safe in paths and arguments. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_objects.h"
#include "velero/mover/mover_place.h"
#include "velero/mover/mover_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool is_safe(const char *name)
{
	return *name && name[0] != '-' && !strchr(name, '/');
}

static void read_upload(const json_t *object)
{
	struct mover_upload upload;
	struct cluster_names names;

	if (mover_upload_view(object, &upload, &(struct cairn_err){0}) != 0)
		return;
	must(is_safe(upload.source_ns) && is_safe(upload.claim) && is_safe(upload.snapshot));
	must(is_safe(upload.location) && is_safe(upload.backup) && upload.timeout_ms > 0);
	must(mover_names_of(object, MOVER_ROLE_UPLOAD, upload.claim, NULL, &names, NULL) != 0 ||
	     strlen(names.name) < 64);
}

static void read_download(const json_t *object)
{
	struct mover_download download;

	if (mover_download_view(object, &download, &(struct cairn_err){0}) != 0)
		return;
	must(is_safe(download.source_ns) && is_safe(download.target_ns) && is_safe(download.claim));
	must(strlen(download.backup_id) == 64 && download.backup_id[0] != '-');
}

static void read_location(const json_t *object)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};

	if (mover_place_of(object, "shop", &place, &(struct cairn_err){0}) != 0)
		return;
	must(strncmp(place.repository, "s3:", 3) == 0);
	must(strcmp(place.repository + strlen(place.repository) - 12, "/restic/shop") == 0);
	must(is_safe(place.files[1].secret) && is_safe(place.files[1].key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct velero_forget forget;
	json_t *object = NULL;

	if (size < 1 ||
	    kube_json_parse((const char *)data + 1, size - 1, &object, &(struct cairn_err){0}))
		return 0;
	(void)mover_step_of(object);
	if (data[0] == 'u')
		read_upload(object);
	else if (data[0] == 'd')
		read_download(object);
	else if (data[0] == 'l')
		read_location(object);
	else if (velero_forget_view(object, &forget, NULL) == 0)
		must(is_safe(forget.ns) &&
		     (strlen(forget.word) == 64 || is_safe(forget.word + 23)));
	json_decref(object);
	return 0;
}
