// One question to an HTTP server in the local network, without TLS: what `assay fleet` asks assayd.
#pragma once

#include <string>

#include "base/result.h"

namespace assay::cli {

// `address`: "http://host:9464/path", "http://[::1]:9464/path" or "unix:/run/assayd/metrics.sock:/path". The body of the
// answer; an Error where there is none within `seconds`, or its status is not 200.
Result<std::string> http_get(const std::string& address, int seconds);

}  // namespace assay::cli
