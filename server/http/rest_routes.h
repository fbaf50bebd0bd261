// The REST form of the open inference protocol. Each request becomes one rpc of
// inference.GRPCInferenceService on the given channel, so that checks, limits
// and statistics are those of gRPC.
//
//   GET  /v2                                       name, version, extensions
//   GET  /v2/health/live, /v2/health/ready         {"live":true}
//   GET  /v2/models/M[/versions/V]                 name, versions, tensors
//   GET  /v2/models/M[/versions/V]/ready           {"name","ready"}
//   GET  /v2/models/M[/versions/V]/config, /stats  ModelConfig, statistics
//   GET  /v2/models/stats                          statistics of all models
//   POST /v2/models/M[/versions/V]/infer           rest/rest_infer_request.h,
//                                                  rest/rest_infer_response.h
//   POST /v2/models/M[/versions/V]/generate,       generate_stream.h,
//        /generate_stream                          rest/rest_generate.h
//   POST /v2/repository[/R]/index                  [{"name","version",...}]
//   POST /v2/repository[/R]/models/M/load, /unload {}
//   GET, POST /v2/logging                          rest/rest_log.h
//   GET, POST /v2[/models/M]/trace/setting         rest/rest_trace.h
//   GET  /v2/systemsharedmemory[/region/R]/status  rest/rest_regions.h
//   POST /v2/systemsharedmemory/region/R/register  rest/rest_regions.h
//   POST /v2/systemsharedmemory[/region/R]/unregister {}
//   and the same of /v2/cudasharedmemory, of which there are no regions
//
// Not live or not ready is status 400 with the same body. Errors are
// {"error":text} with the status of the rpc's code. A POST of a page of another
// origin is refused (request_check.h). docs/rest.md has the whole contract.
//
// Thread-safety: AddTo and Close belong to one thread. Ownership: must outlive
// the port.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "server/http/port/router.h"
#include "server/http/request_check.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gpupool::server {

struct RestOptions {
  absl::Duration get_timeout;  // of the rpc of a GET
  size_t most_body_bytes = 0;
  size_t most_calls = 0;        // POSTs at a time
  absl::Duration post_timeout;  // without a header that sets another
  TrustedHosts trusted;         // hosts whose pages may call
};

class RestRoutes {
 public:
  RestRoutes(const RestOptions& options,
             std::shared_ptr<grpc::Channel> channel);
  ~RestRoutes();

  void AddTo(HttpRouter* router);

  // Refuses further POSTs, cancels those that still run at `end`, and waits
  // until all are answered. Call it while the port's threads run.
  void Close(absl::Time end);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
