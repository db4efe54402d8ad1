// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "cairn.test/interop/pb"
)

// A relay as one writes it in Go: every response is decoded, a new one is built
// from its fields, and that is encoded. A measure for benchmarks.
type relay struct {
	pb.UnimplementedTestServer
	upstream pb.TestClient
}

func rebuild(in *pb.TupleResponse) *pb.TupleResponse {
	out := &pb.TupleResponse{
		BlockMetadataType:   in.BlockMetadataType,
		VolumeCapacityBytes: in.VolumeCapacityBytes,
		BlockMetadata:       make([]*pb.Tuple, len(in.BlockMetadata)),
	}
	for i, t := range in.BlockMetadata {
		out.BlockMetadata[i] = &pb.Tuple{ByteOffset: t.ByteOffset, SizeBytes: t.SizeBytes}
	}
	return out
}

func (r *relay) Tuples(req *pb.TupleRequest, stream grpc.ServerStreamingServer[pb.TupleResponse]) error {
	up, err := r.upstream.Tuples(stream.Context(), req)
	if err != nil {
		return err
	}
	for {
		m, err := up.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(rebuild(m)); err != nil {
			return err
		}
	}
}

func (r *relay) Unary(ctx context.Context, req *pb.EchoRequest) (*pb.EchoResponse, error) {
	return r.upstream.Unary(ctx, req)
}

func serveRelay(args []string) {
	flags := flag.NewFlagSet("relay", flag.ExitOnError)
	listen := flags.String("listen", "", "HOST:PORT")
	cert := flags.String("cert", "", "certificate file")
	key := flags.String("key", "", "key file")
	target := flags.String("target", "", "unix:PATH")
	flags.Parse(args)

	upstream, err := grpc.NewClient(*target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	fatal(err)
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	fatal(err)
	socket, err := net.Listen("tcp", *listen)
	fatal(err)
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	pb.RegisterTestServer(s, &relay{upstream: pb.NewTestClient(upstream)})
	fmt.Println("ready", socket.Addr())
	fatal(s.Serve(socket))
}
