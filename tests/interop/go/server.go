// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	pb "cairn.test/interop/pb"
)

type server struct {
	pb.UnimplementedTestServer
	conns *connTracker
}

// connTracker remembers the connections so that a request can break one.
type connTracker struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (t *connTracker) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err == nil {
		t.mu.Lock()
		t.conns = append(t.conns, c)
		t.mu.Unlock()
	}
	return c, err
}

func (t *connTracker) breakAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		c.Close()
	}
	t.conns = nil
}

func echoMetadata(ctx context.Context, header, trailer func(metadata.MD)) {
	md, _ := metadata.FromIncomingContext(ctx)
	head, tail := metadata.MD{}, metadata.MD{}
	for name, values := range md {
		if strings.HasPrefix(name, "x-head-") {
			head[name] = values
		} else if strings.HasPrefix(name, "x-tail-") {
			tail[name] = values
		}
	}
	if len(head) > 0 {
		header(head)
	}
	trailer(tail)
}

func (s *server) statusOf(req *pb.EchoRequest) error {
	if req.Die {
		s.conns.breakAll()
		return status.Error(codes.Unavailable, "died")
	}
	if req.StatusCode == 0 {
		return nil
	}
	st := status.New(codes.Code(req.StatusCode), req.StatusMessage)
	if len(req.StatusDetails) > 0 {
		p := st.Proto()
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "cairn.test/details", Value: req.StatusDetails})
		st = status.FromProto(p)
	}
	return st.Err()
}

func reply(ctx context.Context, req *pb.EchoRequest, index uint64) (*pb.EchoResponse, error) {
	if req.DelayMs > 0 {
		select {
		case <-time.After(time.Duration(req.DelayMs) * time.Millisecond):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	r := &pb.EchoResponse{Index: index, Payload: req.Payload}
	if req.ReplyBytes > 0 {
		r.Payload = make([]byte, req.ReplyBytes)
	}
	if deadline, ok := ctx.Deadline(); ok {
		r.DeadlineMs = uint64(time.Until(deadline).Milliseconds())
	}
	return r, nil
}

func (s *server) Unary(ctx context.Context, req *pb.EchoRequest) (*pb.EchoResponse, error) {
	echoMetadata(ctx, func(md metadata.MD) { grpc.SetHeader(ctx, md) },
		func(md metadata.MD) { grpc.SetTrailer(ctx, md) })
	r, err := reply(ctx, req, 0)
	if err == nil {
		err = s.statusOf(req)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *server) ServerStream(req *pb.EchoRequest, stream grpc.ServerStreamingServer[pb.EchoResponse]) error {
	ctx := stream.Context()
	echoMetadata(ctx, func(md metadata.MD) { stream.SetHeader(md) }, stream.SetTrailer)
	for i := uint32(0); i < req.Repeat; i++ {
		r, err := reply(ctx, req, uint64(i))
		if err == nil {
			err = stream.Send(r)
		}
		if err != nil {
			return err
		}
	}
	return s.statusOf(req)
}

func (s *server) ClientStream(stream grpc.ClientStreamingServer[pb.EchoRequest, pb.Summary]) error {
	echoMetadata(stream.Context(), func(md metadata.MD) { stream.SetHeader(md) }, stream.SetTrailer)
	sum := &pb.Summary{}
	for {
		req, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(sum)
		}
		if err == nil {
			err = s.statusOf(req)
		}
		if err != nil {
			return err
		}
		sum.Messages++
		sum.Bytes += uint64(len(req.Payload))
	}
}

func (s *server) Bidi(stream grpc.BidiStreamingServer[pb.EchoRequest, pb.EchoResponse]) error {
	echoMetadata(stream.Context(), func(md metadata.MD) { stream.SetHeader(md) }, stream.SetTrailer)
	for i := uint64(0); ; i++ {
		req, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.statusOf(req)
		}
		var r *pb.EchoResponse
		if err == nil {
			r, err = reply(stream.Context(), req, i)
		}
		if err == nil {
			err = stream.Send(r)
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) Tuples(req *pb.TupleRequest, stream grpc.ServerStreamingServer[pb.TupleResponse]) error {
	capacity := int64(req.Count)*req.Stride + req.Length
	for at := uint64(0); at < req.Count; {
		m := &pb.TupleResponse{BlockMetadataType: pb.TupleType_FIXED_LENGTH, VolumeCapacityBytes: capacity}
		for n := uint32(0); n < req.PerMessage && at < req.Count; n++ {
			m.BlockMetadata = append(m.BlockMetadata,
				&pb.Tuple{ByteOffset: int64(at) * req.Stride, SizeBytes: req.Length})
			at++
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func serve(args []string) {
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	listen := flags.String("listen", "", "unix:PATH or HOST:PORT")
	cert := flags.String("cert", "", "certificate file; none is cleartext")
	key := flags.String("key", "", "key file")
	flags.Parse(args)

	network, address := "tcp", *listen
	if path, ok := strings.CutPrefix(*listen, "unix:"); ok {
		network, address = "unix", path
	}
	listener, err := net.Listen(network, address)
	fatal(err)
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(16 << 20), grpc.MaxSendMsgSize(16 << 20),
	}
	if *cert != "" {
		creds, err := credentials.NewServerTLSFromFile(*cert, *key)
		fatal(err)
		options = append(options, grpc.Creds(creds))
	}
	tracker := &connTracker{Listener: listener}
	g := grpc.NewServer(options...)
	pb.RegisterTestServer(g, &server{conns: tracker})
	healthpb.RegisterHealthServer(g, health.NewServer())
	reflection.Register(g)
	fmt.Println("ready", listener.Addr())
	fatal(g.Serve(tracker))
}
