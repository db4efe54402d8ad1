// SPDX-License-Identifier: Apache-2.0

// Lists or verifies through upstream's own client library, pkg/iterator of
// external-snapshot-metadata, used as its documentation has it: what a backup
// application written in Go does.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"k8s.io/client-go/tools/clientcmd"
)

func run() error {
	var args iterator.Args
	var maxResults int
	var kubeconfig, output, source, target string
	flag.StringVar(&kubeconfig, "kubeconfig", "", "")
	flag.StringVar(&args.Namespace, "namespace", "", "")
	flag.StringVar(&args.SnapshotName, "snapshot", "", "")
	flag.StringVar(&args.PrevSnapshotName, "previous-snapshot", "", "")
	flag.StringVar(&args.PrevSnapshotID, "previous-snapshot-id", "", "")
	flag.StringVar(&args.SANamespace, "service-account-namespace", "", "")
	flag.StringVar(&args.SAName, "service-account", "", "")
	flag.Int64Var(&args.StartingOffset, "starting-offset", 0, "")
	flag.IntVar(&maxResults, "max-results", 0, "")
	flag.StringVar(&output, "output-format", "table", "table, json or verify")
	flag.StringVar(&source, "source-device-path", "", "")
	flag.StringVar(&target, "target-device-path", "", "")
	flag.Parse()
	args.MaxResults = int32(maxResults)

	switch output {
	case "table":
		args.Emitter = &iterator.TableEmitter{Writer: os.Stdout}
	case "json":
		args.Emitter = &iterator.JSONEmitter{Writer: os.Stdout}
	default:
		from, err := os.Open(source)
		if err != nil {
			return err
		}
		to, err := os.OpenFile(target, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		args.Emitter = &iterator.VerifierEmitter{SourceDevice: from, TargetDevice: to}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	if args.Clients, err = iterator.BuildClients(config); err != nil {
		return err
	}
	return iterator.GetSnapshotMetadata(context.Background(), args)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}
