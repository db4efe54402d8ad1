/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/group_note.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/front_end_note.h"

/* Keys:  group/<id>          -> name, then the members' ids, a line each
 *        group-name/<name>   -> id
 *        group-of/<snapshot> -> id
 */
#define KEY_MAX   (POOL_NAME_MAX + 32)
#define VALUE_MAX 16384

static int group_note_get_id(struct pool *pool, const char *key, char ret[POOL_ID_MAX + 1],
			     struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = pool_note_get(pool, key, &text, &n, err);

	if (!rc)
		snprintf(ret, POOL_ID_MAX + 1, "%s", text);
	return rc;
}

int csi_group_of(struct pool *pool, const char *snapshot_id, char ret[POOL_ID_MAX + 1],
		 struct cairn_err *err)
{
	char key[KEY_MAX];
	int rc;

	ret[0] = '\0';
	snprintf(key, sizeof(key), "group-of/%s", snapshot_id);
	rc = group_note_get_id(pool, key, ret, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int csi_group_by_id(struct pool *pool, const char *id, struct csi_group *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	char *rest;
	char *line;
	size_t n;
	int rc;

	if (strlen(id) > POOL_ID_MAX)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no group '%.64s'", id);
	snprintf(key, sizeof(key), "group/%s", id);
	rc = pool_note_get(pool, key, &text, &n, err);
	if (rc)
		return rc;
	*ret = (struct csi_group){.n = 0};
	snprintf(ret->id, sizeof(ret->id), "%s", id);
	rest = text;
	(void)strsep(&rest, "\n"); /* the name */
	while ((line = strsep(&rest, "\n")) && line[0] && ret->n < POOL_GROUP_MAX)
		snprintf(ret->members[ret->n++], POOL_ID_MAX + 1, "%s", line);
	return 0;
}

int csi_group_by_name(struct pool *pool, const char *name, struct csi_group *ret,
		      struct cairn_err *err)
{
	char key[KEY_MAX];
	char id[POOL_ID_MAX + 1];
	int rc;

	snprintf(key, sizeof(key), "group-name/%s", name);
	rc = group_note_get_id(pool, key, id, err);
	return rc ? rc : csi_group_by_id(pool, id, ret, err);
}

int csi_group_put(struct pool *pool, const char *name, const struct csi_group *group,
		  struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf value = CAIRN_BUF_INIT(VALUE_MAX);
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	int rc = 0;

	cairn_buf_adds(&value, name);
	for (size_t i = 0; i < group->n && !rc; i++) {
		cairn_buf_addc(&value, '\n');
		cairn_buf_adds(&value, group->members[i]);
		snprintf(key, sizeof(key), "group-of/%s", group->members[i]);
		rc = pool_note_put(pool, key, group->id, err);
	}
	text = cairn_buf_take_string(&value);
	if (!text)
		return cairn_err_nomem(err, "group");
	snprintf(key, sizeof(key), "group/%s", group->id);
	if (!rc)
		rc = pool_note_put(pool, key, text, err);
	snprintf(key, sizeof(key), "group-name/%s", name);
	return rc ? rc : pool_note_put(pool, key, group->id, err);
}

int csi_group_drop(struct pool *pool, const struct csi_group *group, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char key[KEY_MAX];
	char name_key[KEY_MAX];
	size_t n;
	int rc;

	snprintf(key, sizeof(key), "group/%s", group->id);
	rc = pool_note_get(pool, key, &text, &n, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	text[strcspn(text, "\n")] = '\0';
	snprintf(name_key, sizeof(name_key), "group-name/%s", text);
	rc = pool_note_put(pool, name_key, NULL, err);
	for (size_t i = 0; i < group->n && !rc; i++) {
		char member[KEY_MAX];

		snprintf(member, sizeof(member), "group-of/%s", group->members[i]);
		rc = pool_note_put(pool, member, NULL, err);
	}
	return rc ? rc : pool_note_put(pool, key, NULL, err);
}
