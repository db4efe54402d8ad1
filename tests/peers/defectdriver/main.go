// SPDX-License-Identifier: Apache-2.0

// Command defectdriver is a small CSI driver of block volumes in files. It works by
// the reference method: a snapshot is a full copy, a delta reads both files in
// blocks of 4 KiB. Told so by --defect, it breaks one rule of the SnapshotMetadata
// service; the conformance suite must find each of them. Without a defect it is an
// honest driver, also to measure against.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

func main() {
	endpoint := flag.String("endpoint", "", "unix:///PATH to serve on")
	dir := flag.String("dir", "", "directory of volumes and snapshots")
	fixed := flag.Bool("fixed-length", false, "report blocks of one size")
	defect := flag.String("defect", "", "rule to break; see --list-defects")
	readSize := flag.Int("read-size", blockSize, "bytes of one read when comparing; blocks have 4096")
	list := flag.Bool("list-defects", false, "name the defects and exit")
	flag.Parse()
	if *list {
		fmt.Println(strings.Join(defectNames(), "\n"))
		return
	}
	if *defect != "" && defects[*defect] == "" {
		log.Fatalf("no defect is called %q", *defect)
	}
	if *endpoint == "" || *dir == "" {
		log.Fatal("--endpoint and --dir are required")
	}
	if *readSize < blockSize || *readSize > readSizeMax || *readSize%blockSize != 0 {
		log.Fatalf("--read-size must be a multiple of %d up to %d", blockSize, readSizeMax)
	}
	d := newDriver(*dir, *defect, *fixed, *readSize)
	if err := serve(strings.TrimPrefix(*endpoint, "unix://"), d); err != nil {
		log.Fatal(err)
	}
}

func serve(path string, d *driver) error {
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterGroupControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	csi.RegisterSnapshotMetadataServer(server, d)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		server.Stop()
		os.Remove(path)
		os.Exit(0)
	}()
	return server.Serve(listener)
}

// defects maps the name of each defect to what it does.
var defects = map[string]string{
	"not-advertised":               "the capability is missing",
	"negative-max-results-spins":   "max_results < 0 never returns, whatever the caller does",
	"unaligned-offset-shifts":      "ranges after an unaligned start are shifted",
	"offset-beyond-end-ok":         "an offset beyond the end gives OK",
	"negative-offset-ok":           "a negative offset counts as 0",
	"cancel-ends-ok":               "a stream whose context is done ends with OK",
	"deadline-ends-ok":             "a stream whose deadline passed ends with OK",
	"stalled-ends-ok":              "a stream that waits for its reader when the deadline comes ends with OK",
	"cancel-hangs":                 "a cancelled stream keeps a lock that all others need",
	"truncated-ok":                 "one message, then OK",
	"unordered":                    "two tuples are swapped",
	"overlapping":                  "a tuple reaches into the next",
	"zero-size":                    "a tuple of size 0",
	"past-capacity":                "a tuple behind the end",
	"type-unknown":                 "the type is UNKNOWN",
	"type-changes":                 "the second message has another type",
	"capacity-changes":             "the second message has another capacity",
	"wrong-capacity":               "the capacity is a block too much",
	"capacity-of-volume":           "the capacity is the volume's, not the snapshot's",
	"missing-changed-block":        "an overwritten block is not in the delta",
	"missing-zeroed-block":         "a block that is zeros now is not in the delta",
	"missing-new-block":            "a block that was zeros before is not in the delta",
	"missing-allocated-block":      "a written block is not allocated",
	"missing-one-byte":             "a block is equal when its ends are",
	"missing-grown":                "what a volume grew by is not compared",
	"max-results-ignored":          "max_results is not looked at",
	"max-results-of-stream":        "max_results ends the stream",
	"no-first-message":             "no message when there is nothing to tell",
	"tuple-before-start":           "tuples before the start are sent too",
	"start-off-by-one":             "the block in which the start lies is left out",
	"fixed-length-varies":          "FIXED_LENGTH with ranges of any length",
	"fixed-length-short-last":      "FIXED_LENGTH with a last block that is shorter",
	"base-target-swap-accepted":    "the base may be newer than the target",
	"unrelated-accepted":           "the snapshots may be of two volumes",
	"same-snapshot-all":            "a snapshot differs from itself",
	"unknown-snapshot-ok":          "an unknown snapshot is empty",
	"unknown-snapshot-internal":    "an unknown snapshot gives INTERNAL",
	"unknown-base-ok":              "an unknown base is empty",
	"empty-argument-accepted":      "no id gives NOT_FOUND",
	"error-without-message":        "errors have no text",
	"error-with-details":           "errors have details",
	"message-too-large":            "a message of 5 MiB",
	"volume-deleted-not-found":     "a snapshot needs its volume",
	"restored-volume-blocks":       "a snapshot that a volume came from gives ABORTED",
	"written-volume-shows":         "the volume is read instead of its newest snapshot",
	"lists-first-snapshot":         "ListSnapshots of a volume tells one of its snapshots",
	"get-without-id-not-found":     "GetSnapshot without an id gives NOT_FOUND",
	"replay-drops-group":           "a group's member does not name its group when it is asked for again",
	"concurrent-streams-disturbed": "of streams at the same time some miss a block",
}

func defectNames() []string {
	names := make([]string, 0, len(defects))
	for name := range defects {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
