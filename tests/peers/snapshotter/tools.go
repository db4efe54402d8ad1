// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the snapshot controller, csi-snapshotter and what they need.
package tools

import (
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter"
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
)
