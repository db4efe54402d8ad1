// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins rest-server and what it needs.
package tools

import _ "github.com/restic/rest-server/cmd/rest-server"
