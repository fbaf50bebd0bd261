// The outputs of responses on their way into the response cache and out of it.
//
// Pure functions.
#pragma once

#include "inference/grpc_service.pb.h"
#include "server/serving/response_cache.h"

namespace gpupool::server {

// Keeps the outputs of a complete response in the cache, unless they are too
// large.
void KeepOutputs(const inference::ModelInferResponse& response,
                 const CacheKey& key, ResponseCache* cache);

// Adds the outputs to a response without any.
void AddOutputs(const CachedAnswer& answer,
                inference::ModelInferResponse* response);

}  // namespace gpupool::server
