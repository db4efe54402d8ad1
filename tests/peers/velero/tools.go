// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins Velero and what it needs.
package tools

import _ "github.com/vmware-tanzu/velero/cmd/velero"
