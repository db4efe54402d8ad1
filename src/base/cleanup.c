/* SPDX-License-Identifier: Apache-2.0 */

#include "base/cleanup.h"

#include <errno.h>
#include <unistd.h>

void cairn_closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}
