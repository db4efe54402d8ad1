// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the upstream sidecar and what it needs.
package tools

import _ "github.com/kubernetes-csi/external-snapshot-metadata/cmd/csi-snapshot-metadata"
