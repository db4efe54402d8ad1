/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/source.h"

void backup_source_close(struct backup_source *source)
{
	if (source)
		source->ops->close(source);
}
