#include "server/api/inference/cached_answer.h"

#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

const CacheKey kKey = {.version_id = 1, .digest = "digest"};

// Returns a response with two outputs, the first of that many bytes.
inference::ModelInferResponse Response(size_t bytes) {
  inference::ModelInferResponse response;
  response.set_id("17");
  auto* scores = response.add_outputs();
  scores->set_name("scores");
  scores->set_datatype("UINT8");
  scores->add_shape(1);
  scores->add_shape(static_cast<int64_t>(bytes));
  response.add_raw_output_contents(std::string(bytes, '\x80'));
  auto* none = response.add_outputs();
  none->set_name("none");
  none->set_datatype("FP32");
  none->add_shape(0);
  response.add_raw_output_contents("");
  return response;
}

TEST(CachedAnswerTest, OutputsComeBackAsTheyWere) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  inference::ModelInferResponse first = Response(3);
  KeepOutputs(first, kKey, &cache);
  const auto answer = cache.Find(kKey);
  ASSERT_NE(answer, nullptr);
  inference::ModelInferResponse second;
  AddOutputs(*answer, &second);
  first.clear_id();  // of the request, not of the answer
  EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
}

TEST(CachedAnswerTest, OutputsThatAreTooLargeAreNotKept) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  KeepOutputs(Response(1 << 18), kKey, &cache);
  EXPECT_EQ(cache.Find(kKey), nullptr);
  EXPECT_EQ(cache.usage().answers, 0u);
}

}  // namespace
}  // namespace gpupool::server
