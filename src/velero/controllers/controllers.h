/* SPDX-License-Identifier: Apache-2.0 */

/* The controllers of this directory; velero/controller.h says what one is. */
#ifndef CAIRN_VELERO_CONTROLLERS_H
#define CAIRN_VELERO_CONTROLLERS_H

#include "velero/controller.h"

/* Files beside Velero's in the object store, and progress objects that are read from them. */
extern const struct velero_controller velero_records_controller;
/* Removal of what interrupted calls left. */
extern const struct velero_controller velero_sweep_controller;

/* The data mover: velero/mover/mover.c. */
extern const struct velero_controller velero_mover_controller;

#endif
