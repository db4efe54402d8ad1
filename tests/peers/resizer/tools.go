// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins csi-resizer and what it needs.
package tools

import _ "github.com/kubernetes-csi/external-resizer/cmd/csi-resizer"
