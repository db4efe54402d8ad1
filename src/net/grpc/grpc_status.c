/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_status.h"

#include <nghttp2/nghttp2.h>

#include "base/err.h"

int grpc_code_of_http(unsigned http_status)
{
	switch (http_status) {
	case 400:
		return CAIRN_INTERNAL;
	case 401:
		return CAIRN_UNAUTHENTICATED;
	case 403:
		return CAIRN_DENIED;
	case 404:
		return CAIRN_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return CAIRN_UNAVAILABLE;
	default:
		return CAIRN_UNKNOWN;
	}
}

int grpc_code_of_h2_error(uint32_t h2_error)
{
	switch (h2_error) {
	case NGHTTP2_REFUSED_STREAM:
		return CAIRN_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return CAIRN_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return CAIRN_NO_SPACE;
	case NGHTTP2_INADEQUATE_SECURITY:
		return CAIRN_DENIED;
	default:
		return CAIRN_INTERNAL;
	}
}

bool grpc_status_parse(const char *text, size_t n, int *ret_code)
{
	unsigned value = 0;

	if (n == 0 || n > 4)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (unsigned)(text[i] - '0');
	}
	*ret_code = value <= 16 ? -(int)value : CAIRN_UNKNOWN;
	return true;
}

const char *const net_grpc_status_labels[] = {
	"OK",
	"Canceled",
	"Unknown",
	"InvalidArgument",
	"DeadlineExceeded",
	"NotFound",
	"AlreadyExists",
	"PermissionDenied",
	"ResourceExhausted",
	"FailedPrecondition",
	"Aborted",
	"OutOfRange",
	"Unimplemented",
	"Internal",
	"Unavailable",
	"DataLoss",
	"Unauthenticated",
	"unknown-non-grpc",
	NULL,
};

const char *net_grpc_status_label(int status)
{
	const int others = sizeof(net_grpc_status_labels) / sizeof(net_grpc_status_labels[0]) - 2;

	return net_grpc_status_labels[status >= 0 && status < others ? status : others];
}
