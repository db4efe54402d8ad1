/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory: repo/repo_objects.h for S3. */
#ifndef CAIRN_REPO_S3_S3_OBJECTS_H
#define CAIRN_REPO_S3_S3_OBJECTS_H

#include "repo/repo_objects.h"

extern const struct repo_object_ops s3_object_ops;

#endif
