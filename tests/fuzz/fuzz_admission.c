/* SPDX-License-Identifier: Apache-2.0 */

/* Bodies of the webhook. What is taken has everything that an answer needs. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "older/session/admission.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_admission admission;
	int rc = session_admission_parse((const char *)data, size, &admission, NULL);

	must(rc == 0 || rc == CAIRN_INVALID || rc == CAIRN_NO_SPACE);
	if (rc == 0) {
		char *answer = session_admission_answer(admission.uid, false, 403, admission.ns);

		must(answer != NULL);
		must(admission.n_snapshots > 0 && admission.n_snapshots <= SESSION_SNAPSHOTS_MAX);
		for (size_t i = 0; i < admission.n_snapshots; i++)
			must(admission.snapshots[i][0] != '\0');
		must(json_is_object(admission.user) && admission.ns[0] != '\0');
		free(answer);
	}
	session_admission_done(&admission);
	return 0;
}
