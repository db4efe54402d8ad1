# SPDX-License-Identifier: Apache-2.0
"""A CSI driver seen through a proxy that hides the capability to list snapshots."""
import concurrent.futures

import grpc

CAPABILITIES = "/csi.v1.Controller/ControllerGetCapabilities"
LIST_SNAPSHOTS = bytes.fromhex("0a040a020806")  # an entry of the list: {rpc {type 6}}


def same(message):
    return message


class Proxy(grpc.GenericRpcHandler):
    def __init__(self, driver, socket):
        self.socket = socket
        self.channel = grpc.insecure_channel(f"unix:{driver}")
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port(f"unix:{socket}")
        self.server.start()

    def service(self, handler_call_details):
        method = handler_call_details.method

        def pass_on(request, context):
            try:
                answer = self.channel.unary_unary(method, same, same)(request, timeout=60)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            return answer.replace(LIST_SNAPSHOTS, b"") if method == CAPABILITIES else answer
        return grpc.unary_unary_rpc_method_handler(pass_on, same, same)

    def close(self):
        self.server.stop(0)
        self.channel.close()
