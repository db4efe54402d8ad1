// SPDX-License-Identifier: Apache-2.0

// An application on client-go's dynamic client: it knows the objects of cbt.storage.k8s.io by
// their fields alone, creates them, waits for them and reads what they lead to.
//
//	dynamic-client [flags] session NAME SNAPSHOT...   the status of a session
//	dynamic-client [flags] differential NAME TARGET [BASE]   blocks, through status.url
//	dynamic-client [flags] delta NAME TARGET [BASE]   blocks, through VolumeSnapshotDelta
//
// Blocks are printed as JSON: [[offset, size], ...] in bytes.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const group = "cbt.storage.k8s.io"

var (
	kubeconfig = flag.String("kubeconfig", "", "file")
	namespace  = flag.String("namespace", "default", "of everything")
	version    = flag.String("version", "v1alpha2", "of the CRDs")
	authority  = flag.String("ca", "", "PEM file: authority of status.url")
	limit      = flag.Int64("limit", 256, "entries of a page")
	timeout    = flag.Duration("timeout", time.Minute, "for all of it")
)

type block [2]uint64

func main() {
	flag.Parse()
	if flag.NArg() < 3 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what, name string, rest []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var found any
	switch what {
	case "session":
		found, err = session(ctx, client, name, rest)
	case "differential":
		found, err = differential(ctx, client, config, name, rest)
	case "delta":
		found, err = delta(ctx, client, name, rest)
	default:
		return fmt.Errorf("%s: what is that?", what)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func resource(client dynamic.Interface, version, plural string) dynamic.ResourceInterface {
	return client.Resource(schema.GroupVersionResource{
		Group: group, Version: version, Resource: plural}).Namespace(*namespace)
}

func object(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec}}
}

// finished waits until a field of the status has one of the values. A server may end a watch at
// any time; the next one begins where it ended.
func finished(ctx context.Context, of dynamic.ResourceInterface, made *unstructured.Unstructured,
	field string, values ...string) (map[string]any, error) {
	version := made.GetResourceVersion()
	for ctx.Err() == nil {
		watch, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: version,
			FieldSelector: fields.OneTermEqualSelector("metadata.name", made.GetName()).String()})
		if err != nil {
			return nil, err
		}
		for event := range watch.ResultChan() {
			now, ok := event.Object.(*unstructured.Unstructured)
			if !ok || now.GetUID() != made.GetUID() {
				continue
			}
			version = now.GetResourceVersion()
			status, _, _ := unstructured.NestedMap(now.Object, "status")
			if slices.Contains(values, fmt.Sprint(status[field])) {
				watch.Stop()
				return status, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: %w", made.GetName(), ctx.Err())
}

func session(ctx context.Context, client dynamic.Interface, name string, snapshots []string) (any,
	error) {
	of := resource(client, *version, "snapshotsessionrequests")
	names := []any{}
	for _, snapshot := range snapshots {
		names = append(names, snapshot)
	}
	made, err := of.Create(ctx, object(*version, "SnapshotSessionRequest", name,
		map[string]any{"snapshots": names}), metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return finished(ctx, of, made, "sessionState", "Ready", "Failed")
}

func names(rest []string) map[string]any {
	spec := map[string]any{"targetVolumeSnapshotName": rest[0]}
	if len(rest) > 1 {
		spec["baseVolumeSnapshotName"] = rest[1]
	}
	return spec
}

func differential(ctx context.Context, client dynamic.Interface, config *rest.Config, name string,
	rest []string) (any, error) {
	of := resource(client, *version, "differentialsnapshots")
	made, err := of.Create(ctx, object(*version, "DifferentialSnapshot", name, names(rest)),
		metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	status, err := finished(ctx, of, made, "state", "Success", "Failure")
	if err != nil {
		return nil, err
	}
	if status["state"] != "Success" {
		return nil, fmt.Errorf("%s: %s", status["state"], status["error"])
	}
	return pages(ctx, config.BearerToken, status["url"].(string))
}

// page has no JSON tags, as its proposal has none.
type page struct {
	ChangeBlockList []struct {
		Offset, Size uint64
		Context      []byte
		ZeroOut      bool
	}
	NextOffset string
	VolumeSize uint64
	Timeout    uint64
}

func pages(ctx context.Context, token, where string) ([]block, error) {
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	found, next := []block{}, ""
	for {
		query := url.Values{"maxEntries": {strconv.FormatInt(*limit, 10)}}
		if next != "" {
			query.Set("startOffset", next)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://"+where+"?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		reply, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: %s %v", reply.Status, body, err)
		}
		var now page
		if err := json.Unmarshal(body, &now); err != nil {
			return nil, err
		}
		for _, one := range now.ChangeBlockList {
			found = append(found, block{one.Offset, one.Size})
		}
		if now.NextOffset == "" {
			return found, nil
		}
		next = now.NextOffset
	}
}

func delta(ctx context.Context, client dynamic.Interface, name string, rest []string) (any, error) {
	of := resource(client, "v1alpha1", "volumesnapshotdeltas")
	found, offset := []block{}, int64(0)
	for {
		spec := names(rest)
		spec["mode"], spec["limit"], spec["offset"] = "block", *limit, offset
		answer, err := of.Create(ctx, object("v1alpha1", "VolumeSnapshotDelta", name, spec),
			metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		state, _, _ := unstructured.NestedString(answer.Object, "status", "state")
		entries, _, _ := unstructured.NestedSlice(answer.Object, "status", "changedBlockDeltas")
		for _, entry := range entries {
			one := entry.(map[string]any)
			size := uint64(one["blockSizeBytes"].(int64))
			found = append(found, block{uint64(one["offset"].(int64)) * size, size})
		}
		if state != "Continue" {
			if state != "Completed" {
				return nil, fmt.Errorf("state %q", state)
			}
			return found, nil
		}
		next, ok, _ := unstructured.NestedInt64(answer.Object, "status", "continue")
		if !ok || next <= offset {
			return nil, fmt.Errorf("continue %d after %d", next, offset)
		}
		offset = next
	}
}
