/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/global_init.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http_client/http_client.h"

static _Thread_local bool starved;

static void *global_init_allocate(size_t n)
{
	void *p = cairn_alloc(n);

	if (!p)
		starved = true;
	return p;
}

bool kube_global_starved(void)
{
	bool was = starved;

	starved = false;
	return was;
}

static void global_init_set_up(void)
{
	json_set_alloc_funcs(global_init_allocate, free);
	http_client_init();
}

void kube_global_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, global_init_set_up);
}
