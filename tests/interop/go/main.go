// SPDX-License-Identifier: Apache-2.0

// Interop is the grpc-go half of the interoperability tests: a server and a
// client of the cairn.test service.
//
//	interop server -listen unix:PATH | HOST:PORT [-cert FILE -key FILE]
//	interop relay -listen HOST:PORT -cert FILE -key FILE -target unix:PATH
//	interop client -target unix:PATH | HOST:PORT [-ca FILE] [-name NAME] [-skip CHECK,…]
//
// The server prints "ready ADDRESS". The client prints a line for each check
// and exits with 1 when one failed.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: interop server|client|relay …")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "server":
		serve(os.Args[2:])
	case "client":
		check(os.Args[2:])
	case "relay":
		serveRelay(os.Args[2:])
	default:
		fmt.Fprintln(os.Stderr, "interop: unknown command", os.Args[1])
		os.Exit(2)
	}
}
