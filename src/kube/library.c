/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/library.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

static void set_up(void)
{
	json_set_alloc_funcs(cairn_alloc, free);
	curl_global_init(CURL_GLOBAL_ALL);
}

void kube_library_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, set_up);
}
