/* SPDX-License-Identifier: Apache-2.0 */

/* Texts of other programs in the status of an object. */
#ifndef CAIRN_VELERO_VELERO_MESSAGE_H
#define CAIRN_VELERO_VELERO_MESSAGE_H

#include <jansson.h>

/* A JSON string of any text: '?' stands for each byte that is not UTF-8, since a message that
 * was cut in the middle of a character must not prevent the status from being written. NULL: no
 * memory. */
json_t *velero_message(const char *text);

#endif
