/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/survey.h"

#include "base/clock.h"
#include "base/err.h"

static uint64_t survey_now_ms(void)
{
	return cairn_monotonic_ns() / CAIRN_NS_PER_MS;
}

void repo_survey_done(struct repo_survey *survey)
{
	for (int i = 0; i < REPO_FILE_KINDS; i++)
		repo_names_done(&survey->names[i]);
	*survey = (struct repo_survey){0};
}

static int survey_add(void *arg, enum repo_file kind, const struct repo_id *name, uint64_t size,
		      struct cairn_err *err)
{
	struct repo_survey *survey = arg;

	return repo_names_add(&survey->names[kind],
			      &(struct repo_named){.name = *name, .size = size}, err);
}

static void survey_finish(struct repo_survey *survey)
{
	static const enum repo_file kinds[] = {REPO_FILE_KEY, REPO_FILE_LOCK, REPO_FILE_SNAPSHOT,
					       REPO_FILE_INDEX};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		repo_names_sort(&survey->names[kinds[i]]);
		survey->has[kinds[i]] = true;
	}
}

/* A store that fails for another reason than the kind of listing fails again, and is not asked
 * twice for what it has retried. */
static bool is_final(int rc)
{
	return rc == CAIRN_UNAVAILABLE || rc == CAIRN_CANCELLED || rc == CAIRN_NO_SPACE;
}

int repo_survey_take(struct repo_store *store, const enum repo_file *kinds, size_t n,
		     struct repo_survey *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_survey_done) struct repo_survey survey = {.taken_ms = survey_now_ms()};
	int rc = repo_store_list_rest(store, survey_add, &survey, &survey.at_once, err);

	if (rc < 0 && is_final(rc))
		return rc;
	if (rc == 0) {
		survey_finish(&survey);
	} else {
		repo_survey_done(&survey);
		survey.taken_ms = survey_now_ms();
		survey.at_once = true;
		rc = 0;
		for (size_t i = 0; rc == 0 && i < n; i++) {
			rc = repo_names_list(store, kinds[i], &survey.names[kinds[i]], err);
			survey.has[kinds[i]] = rc == 0;
		}
	}
	if (rc < 0)
		return rc;
	*ret = survey;
	survey = (struct repo_survey){0};
	return 0;
}

bool repo_survey_use(struct repo_survey *survey, enum repo_file kind, struct repo_names *ret)
{
	if (!survey->has[kind] || survey_now_ms() - survey->taken_ms > REPO_SURVEY_FRESH_MS)
		return false;
	*ret = survey->names[kind];
	survey->names[kind] = (struct repo_names){0};
	survey->has[kind] = false;
	return true;
}
