// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins h2spec, which has no go.mod of its own, and what it needs.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
