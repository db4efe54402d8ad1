/* SPDX-License-Identifier: Apache-2.0 */

#include "store_helper.h"

int main(void)
{
	return store_conformance("reflink", SCRATCHFS_XFS);
}
