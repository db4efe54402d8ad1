// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins csi-provisioner and what it needs.
package tools

import _ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
