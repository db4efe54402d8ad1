// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins restic and what it needs.
package tools

import _ "github.com/restic/restic/cmd/restic"
