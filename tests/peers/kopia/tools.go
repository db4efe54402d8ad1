// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins kopia and what it needs.
package tools

import _ "github.com/kopia/kopia"
