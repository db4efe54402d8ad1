// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins the programs that generate code from our .proto file.
package tools

import (
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
