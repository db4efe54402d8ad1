// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins helm and what it needs.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
