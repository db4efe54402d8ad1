// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "cairn.test/interop/pb"
)

const stepTimeout = 60 * time.Second

type env struct {
	dial func() *grpc.ClientConn
	conn *grpc.ClientConn
	t    pb.TestClient
}

type checkFunc struct {
	name string
	run  func(ctx context.Context, e *env) error
}

func wantCode(err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("got %v, want %v", err, code)
	}
	return nil
}

func statuses(ctx context.Context, e *env) error {
	texts := []string{"plain", "grüße, мир, 世界 🪨", "100%25 \"quoted\" \\ back", "line\nbreak\ttab", ""}
	for code := int32(1); code <= 16; code++ {
		text := texts[int(code)%len(texts)]
		_, err := e.t.Unary(ctx, &pb.EchoRequest{StatusCode: code, StatusMessage: text})
		st, _ := status.FromError(err)
		if int32(st.Code()) != code || st.Message() != text {
			return fmt.Errorf("asked %d %q, got %d %q", code, text, st.Code(), st.Message())
		}
	}
	return nil
}

func details(ctx context.Context, e *env) error {
	want := []byte{0, 1, 2, 0xff, 'x'}
	_, err := e.t.Unary(ctx, &pb.EchoRequest{StatusCode: 9, StatusMessage: "m", StatusDetails: want})
	p := status.Convert(err).Proto()
	if len(p.GetDetails()) != 1 || !bytes.Equal(p.Details[0].Value, want) {
		return fmt.Errorf("details are %v", p.GetDetails())
	}
	return nil
}

func metadataBothWays(ctx context.Context, e *env) error {
	blob := string([]byte{0, 1, 0xfe, 0xff, ',', '='})
	ctx = metadata.AppendToOutgoingContext(ctx,
		"x-head-text", "one, two; three", "x-tail-text", "t", "x-head-data-bin", blob,
		"x-tail-data-bin", "", "x-head-twice", "a", "x-head-twice", "b")
	var head, tail metadata.MD
	_, err := e.t.Unary(ctx, &pb.EchoRequest{}, grpc.Header(&head), grpc.Trailer(&tail))
	if err != nil {
		return err
	}
	for _, c := range []struct {
		md         metadata.MD
		name, want string
	}{
		{head, "x-head-text", "one, two; three"}, {tail, "x-tail-text", "t"},
		{head, "x-head-data-bin", blob}, {tail, "x-tail-data-bin", ""},
	} {
		if v := c.md.Get(c.name); len(v) != 1 || v[0] != c.want {
			return fmt.Errorf("%s is %q", c.name, v)
		}
	}
	if v := head.Get("x-head-twice"); strings.Join(v, "|") != "a|b" {
		return fmt.Errorf("x-head-twice is %q", v)
	}
	return nil
}

func deadlines(ctx context.Context, e *env) error {
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := e.t.Unary(short, &pb.EchoRequest{DelayMs: 30000})
	if err := wantCode(err, codes.DeadlineExceeded); err != nil {
		return err
	}
	long, cancel2 := context.WithTimeout(ctx, 50*time.Second)
	defer cancel2()
	r, err := e.t.Unary(long, &pb.EchoRequest{})
	if err != nil {
		return err
	}
	if r.DeadlineMs == 0 || r.DeadlineMs > 50000 {
		return fmt.Errorf("server saw %d ms left", r.DeadlineMs)
	}
	stream, err := e.t.ServerStream(short, &pb.EchoRequest{Repeat: 1000, DelayMs: 1000})
	if err == nil {
		_, err = stream.Recv()
	}
	return wantCode(err, codes.DeadlineExceeded)
}

func cancelFromClient(ctx context.Context, e *env) error {
	c, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := e.t.ServerStream(c, &pb.EchoRequest{Repeat: 1 << 30, Payload: []byte("x")})
	if err != nil {
		return err
	}
	for i := 0; i < 10; i++ {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if err := wantCode(err, codes.Canceled); err != nil {
		return err
	}
	_, err = e.t.Unary(ctx, &pb.EchoRequest{}) // the connection lives on
	return err
}

func cancelFromServer(ctx context.Context, e *env) error {
	// The server ends a bidirectional call while the client still sends.
	stream, err := e.t.Bidi(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.EchoRequest{StatusCode: 10, StatusMessage: "enough"}); err != nil {
		return err
	}
	for err == nil {
		err = stream.Send(&pb.EchoRequest{Payload: make([]byte, 1000)})
	}
	if err != io.EOF {
		return fmt.Errorf("send ended with %v", err)
	}
	_, err = stream.Recv()
	return wantCode(err, codes.Aborted)
}

func largeMessages(ctx context.Context, e *env) error {
	for _, size := range []int{0, 1, 16383, 16384, 65535, 1 << 20, 4<<20 - 64} {
		payload := bytes.Repeat([]byte{0x5a}, size)
		r, err := e.t.Unary(ctx, &pb.EchoRequest{Payload: payload})
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if !bytes.Equal(r.Payload, payload) {
			return fmt.Errorf("%d bytes came back as %d", size, len(r.Payload))
		}
	}
	return nil
}

func tooLargeMessage(ctx context.Context, e *env) error {
	_, err := e.t.Unary(ctx, &pb.EchoRequest{Payload: make([]byte, 17<<20)})
	if err := wantCode(err, codes.ResourceExhausted); err != nil {
		return err
	}
	_, err = e.t.Unary(ctx, &pb.EchoRequest{})
	return err
}

func manyStreams(ctx context.Context, e *env) error {
	const n = 1000
	streams := make([]grpc.BidiStreamingClient[pb.EchoRequest, pb.EchoResponse], n)
	for i := range streams {
		s, err := e.t.Bidi(ctx)
		if err != nil {
			return err
		}
		streams[i] = s
	}
	for round := 0; round < 3; round++ {
		for i, s := range streams {
			if err := s.Send(&pb.EchoRequest{Payload: []byte(fmt.Sprint(i))}); err != nil {
				return err
			}
		}
		for i, s := range streams {
			r, err := s.Recv()
			if err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
			if string(r.Payload) != fmt.Sprint(i) {
				return fmt.Errorf("stream %d got %q", i, r.Payload)
			}
		}
	}
	for i, s := range streams {
		s.CloseSend()
		if _, err := s.Recv(); err != io.EOF {
			return fmt.Errorf("stream %d ended with %v", i, err)
		}
	}
	return nil
}

func slowReader(ctx context.Context, e *env) error {
	// One stream is not read for a while; another must not wait for it.
	stuck, err := e.t.ServerStream(ctx, &pb.EchoRequest{Repeat: 400, ReplyBytes: 64 << 10})
	if err != nil {
		return err
	}
	if _, err := stuck.Recv(); err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond)
	for i := 0; i < 20; i++ {
		if _, err := e.t.Unary(ctx, &pb.EchoRequest{ReplyBytes: 10000}); err != nil {
			return err
		}
	}
	n := 1
	for {
		r, err := stuck.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if r.Index != uint64(n) {
			return fmt.Errorf("message %d has index %d", n, r.Index)
		}
		n++
	}
	if n != 400 {
		return fmt.Errorf("%d messages", n)
	}
	return nil
}

func halfClosed(ctx context.Context, e *env) error {
	s, err := e.t.ClientStream(ctx)
	if err != nil {
		return err
	}
	for i := 0; i < 100; i++ {
		if err := s.Send(&pb.EchoRequest{Payload: make([]byte, 1000)}); err != nil {
			return err
		}
	}
	sum, err := s.CloseAndRecv()
	if err != nil {
		return err
	}
	if sum.Messages != 100 || sum.Bytes != 100000 {
		return fmt.Errorf("summary %v", sum)
	}
	// Half-closed before anything was sent, and answers after the half-close.
	b, err := e.t.Bidi(ctx)
	if err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		b.Send(&pb.EchoRequest{DelayMs: 20})
	}
	b.CloseSend()
	for i := 0; i < 3; i++ {
		if _, err := b.Recv(); err != nil {
			return err
		}
	}
	if _, err := b.Recv(); err != io.EOF {
		return fmt.Errorf("ended with %v", err)
	}
	b, err = e.t.Bidi(ctx)
	if err == nil {
		b.CloseSend()
		_, err = b.Recv()
	}
	if err != io.EOF {
		return fmt.Errorf("empty call ended with %v", err)
	}
	return nil
}

func trailersOnly(ctx context.Context, e *env) error {
	stream, err := e.t.ServerStream(ctx, &pb.EchoRequest{StatusCode: 5, StatusMessage: "gone"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err := wantCode(err, codes.NotFound); err != nil {
		return err
	}
	err = e.conn.Invoke(ctx, "/cairn.test.Test/Nothing", &pb.EchoRequest{}, &pb.EchoResponse{})
	if err := wantCode(err, codes.Unimplemented); err != nil {
		return err
	}
	err = e.conn.Invoke(ctx, "/no.such.Service/Nothing", &pb.EchoRequest{}, &pb.EchoResponse{})
	return wantCode(err, codes.Unimplemented)
}

func emptyStream(ctx context.Context, e *env) error {
	stream, err := e.t.ServerStream(ctx, &pb.EchoRequest{Repeat: 0})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		return fmt.Errorf("ended with %v", err)
	}
	return nil
}

func statusAfterMessages(ctx context.Context, e *env) error {
	stream, err := e.t.ServerStream(ctx, &pb.EchoRequest{Repeat: 5, StatusCode: 15, StatusMessage: "lost"})
	n := 0
	for err == nil {
		_, err = stream.Recv()
		n++
	}
	if n != 6 {
		return fmt.Errorf("%d messages before the status", n-1)
	}
	return wantCode(err, codes.DataLoss)
}

func tuples(ctx context.Context, e *env) error {
	for _, per := range []uint32{1, 16, 1024} {
		stream, err := e.t.Tuples(ctx, &pb.TupleRequest{Count: 10000, PerMessage: per, Stride: 8192, Length: 4096})
		if err != nil {
			return err
		}
		at := int64(0)
		for {
			m, err := stream.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			for _, t := range m.BlockMetadata {
				if t.ByteOffset != at*8192 || t.SizeBytes != 4096 {
					return fmt.Errorf("tuple %d is %v", at, t)
				}
				at++
			}
		}
		if at != 10000 {
			return fmt.Errorf("%d tuples", at)
		}
	}
	return nil
}

func compressed(ctx context.Context, e *env) error {
	payload := bytes.Repeat([]byte("cairn "), 5000)
	r, err := e.t.Unary(ctx, &pb.EchoRequest{Payload: payload}, grpc.UseCompressor(gzip.Name))
	if status.Code(err) == codes.Unimplemented {
		return nil // refused by the rules
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(r.Payload, payload) {
		return errors.New("payload differs")
	}
	return nil
}

func healthService(ctx context.Context, e *env) error {
	h := healthpb.NewHealthClient(e.conn)
	r, err := h.Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if r.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("status %v", r.Status)
	}
	_, err = h.Check(ctx, &healthpb.HealthCheckRequest{Service: "no.such"})
	if err := wantCode(err, codes.NotFound); err != nil {
		return err
	}
	c, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := h.Watch(c, &healthpb.HealthCheckRequest{Service: "no.such"})
	if err != nil {
		return err
	}
	m, err := w.Recv()
	if err != nil {
		return err
	}
	if m.Status != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return fmt.Errorf("watch says %v", m.Status)
	}
	return nil
}

func concurrentCalls(ctx context.Context, e *env) error {
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for i := 0; i < 64; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := 0; k < 50; k++ {
				want := fmt.Sprintf("%d/%d", i, k)
				r, err := e.t.Unary(ctx, &pb.EchoRequest{Payload: []byte(want)})
				if err != nil || string(r.Payload) != want {
					errs <- fmt.Errorf("%s: %v", want, err)
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func largeMetadata(ctx context.Context, e *env) error {
	value := strings.Repeat("v", 6000)
	ctx = metadata.AppendToOutgoingContext(ctx, "x-head-large", value)
	var head metadata.MD
	if _, err := e.t.Unary(ctx, &pb.EchoRequest{}, grpc.Header(&head)); err != nil {
		return err
	}
	if v := head.Get("x-head-large"); len(v) != 1 || v[0] != value {
		return errors.New("value differs")
	}
	return nil
}

// serverDies goes last on a connection of its own.
func serverDies(ctx context.Context, e *env) error {
	conn := e.dial()
	defer conn.Close()
	t := pb.NewTestClient(conn)
	stream, err := t.ServerStream(ctx, &pb.EchoRequest{Repeat: 3, Die: true})
	for err == nil {
		_, err = stream.Recv()
	}
	if err == io.EOF {
		return errors.New("a broken connection looked like a clean end")
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.Internal {
		return fmt.Errorf("got %v", err)
	}
	_, err = t.Unary(ctx, &pb.EchoRequest{}, grpc.WaitForReady(true)) // reconnects
	return err
}

var checks = []checkFunc{
	{"statuses", statuses},
	{"status details", details},
	{"metadata", metadataBothWays},
	{"large metadata", largeMetadata},
	{"deadlines", deadlines},
	{"cancel from the client", cancelFromClient},
	{"cancel from the server", cancelFromServer},
	{"messages up to 4 MiB", largeMessages},
	{"message over the limit", tooLargeMessage},
	{"1000 concurrent streams", manyStreams},
	{"64 concurrent callers", concurrentCalls},
	{"slow reader", slowReader},
	{"half-closed streams", halfClosed},
	{"trailers only", trailersOnly},
	{"empty stream", emptyStream},
	{"status after messages", statusAfterMessages},
	{"tuples", tuples},
	{"gzip", compressed},
	{"health", healthService},
	{"server dies in mid-stream", serverDies},
}

func check(args []string) {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	target := flags.String("target", "", "unix:PATH or HOST:PORT")
	ca := flags.String("ca", "", "authority file; none is cleartext")
	name := flags.String("name", "", "server name in the certificate")
	flags.Parse(args)

	creds := insecure.NewCredentials()
	if *ca != "" {
		var err error
		creds, err = credentials.NewClientTLSFromFile(*ca, *name)
		fatal(err)
	}
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(*target, grpc.WithTransportCredentials(creds),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
		fatal(err)
		return conn
	}
	conn := dial()
	e := &env{dial: dial, conn: conn, t: pb.NewTestClient(conn)}
	failed := 0
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		if err := c.run(ctx, e); err != nil {
			failed++
			fmt.Printf("not ok %s: %v\n", c.name, err)
		} else {
			fmt.Printf("ok %s\n", c.name)
		}
		cancel()
	}
	if failed > 0 {
		os.Exit(1)
	}
}
