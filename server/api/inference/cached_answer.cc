#include "server/api/inference/cached_answer.h"

#include <cstdint>
#include <string>
#include <utility>

namespace gpupool::server {

void KeepOutputs(const inference::ModelInferResponse& response,
                 const CacheKey& key, ResponseCache* cache) {
  uint64_t bytes = 0;
  for (const std::string& raw : response.raw_output_contents()) {
    bytes += raw.size();
  }
  if (!cache->Takes(bytes)) return;  // nothing is copied then
  CachedAnswer answer;
  answer.outputs.reserve(static_cast<size_t>(response.outputs_size()));
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    answer.outputs.push_back(
        {.name = output.name(),
         .data_type = output.datatype(),
         .shape = {output.shape().begin(), output.shape().end()},
         .bytes = response.raw_output_contents(i)});
  }
  cache->Insert(key, std::move(answer));
}

void AddOutputs(const CachedAnswer& answer,
                inference::ModelInferResponse* response) {
  for (const CachedTensor& cached : answer.outputs) {
    auto* output = response->add_outputs();
    output->set_name(cached.name);
    output->set_datatype(cached.data_type);
    output->mutable_shape()->Add(cached.shape.begin(), cached.shape.end());
    response->add_raw_output_contents(cached.bytes);
  }
}

}  // namespace gpupool::server
