// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins csi-driver-host-path, a driver without SnapshotMetadata, and what it needs.
package tools

import _ "github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin"
