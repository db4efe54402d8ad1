// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the S3 server and what it needs.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
