// How fast do threads make batches of transformed images?
//
//   loader_speed CASE WORKERS SECONDS
//
// CASE is `small` (128 rows of 3 x 32 x 32 with crop, flip and normalization)
// or `large` (32 rows of 3 x 256 x 256, of which a random part becomes 224 x
// 224). Prints {"ms": MEAN}, the milliseconds of a batch that somebody waits
// for. The peer is peers/torch_loader.py.
#include <google/protobuf/text_format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/graph/builder.h"
#include "engine/train/batch_source.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using Clock = std::chrono::steady_clock;

struct LoaderCase {
  int64_t side = 0;   // of the rows
  int64_t after = 0;  // of a batch's images
  uint32_t batch = 0;
  uint32_t rows = 0;
  const char* transforms = "";
};

LoaderCase CaseOf(const std::string& name) {
  if (name == "small") {
    return {32, 32, 128, 4096, R"(
      transforms { random_crop { size: 32 padding: 4 } })"};
  }
  GPUPOOL_CHECK(name == "large");
  return {256, 224, 32, 256, R"(
      transforms { random_resized_crop { size: 224 } })"};
}

v1::JobSpec JobOfCase(const LoaderCase& used, uint32_t workers) {
  v1::JobSpec spec;
  GPUPOOL_CHECK(google::protobuf::TextFormat::ParseFromString(
      std::string(used.transforms) + R"(
        transforms { random_horizontal_flip {} }
        transforms { to_float {} }
        transforms { normalize { mean: [ 0.485, 0.456, 0.406 ]
                                 std: [ 0.229, 0.224, 0.225 ] } })",
      spec.mutable_data()));
  spec.mutable_data()->mutable_loader()->set_workers(workers);
  return spec;
}

// Returns rows of random bytes.
Table RandomImages(const LoaderCase& used) {
  Column column = {.type = ElementType::kUint8,
                   .stored = ElementType::kUint8,
                   .shape = {3, used.side, used.side},
                   .rows = used.rows,
                   .width = static_cast<uint64_t>(3 * used.side * used.side)};
  auto bytes = std::make_shared<std::vector<char>>(used.rows * column.width);
  Philox random(1);
  for (char& byte : *bytes) byte = static_cast<char>(random.NextWord());
  column.data = bytes->data();
  column.memory = bytes;
  Table table{.rows = used.rows};
  table.inputs.push_back(std::move(column));
  return table;
}

double MillisecondsOfBatch(const LoaderCase& used, uint32_t workers,
                           double seconds) {
  const v1::JobSpec spec = JobOfCase(used, workers);
  const Table table = RandomImages(used);
  const Shape batch = {used.batch, 3, used.after, used.after};
  Graph graph;
  GraphBuilder builder(&graph);
  GPUPOOL_CHECK(builder.Input("x", {DType::kFloat32, batch}).ok());
  const auto fed = FeedTransformed(
      {{.name = "x", .dtype = DType::kFloat32, .shape = batch}}, spec.data(),
      {.rows = used.rows,
       .feature_shape = table.features().shape,
       .feature_type = v1::UINT8});
  GPUPOOL_CHECK(fed.ok());
  std::vector<float> input(static_cast<size_t>(batch.elements()));
  LandingLayout layout;
  layout.Add("x", input.size() * sizeof(float));
  BatchSource source({.table = table,
                      .fed = *fed,
                      .graph = graph,
                      .layout = layout,
                      .batches_per_epoch = used.rows / used.batch});
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < used.rows; ++i) order.push_back(i);
  auto sampler = DistributedSampler::Create({.batch_size = used.batch}, order);
  GPUPOOL_CHECK(sampler.ok());
  GPUPOOL_CHECK(source.LoadAhead(spec, *sampler, 1'000'000).ok());
  uint64_t taken = 0;
  const auto take = [&] {
    const auto filled =
        source.Fill(taken, sampler->Next(), [&](absl::string_view) {
          return absl::MakeSpan(reinterpret_cast<std::byte*>(input.data()),
                                input.size() * sizeof(float));
        });
    GPUPOOL_CHECK(filled.ok());
    ++taken;
  };
  // The batches that were made ahead before anybody waited.
  for (uint32_t i = 0; i < 4 * (workers + 1); ++i) take();
  const uint64_t first = taken;
  const Clock::time_point begin = Clock::now();
  std::chrono::duration<double> passed{0};
  while (passed.count() < seconds) {
    take();
    passed = Clock::now() - begin;
  }
  return 1000 * passed.count() / static_cast<double>(taken - first);
}

}  // namespace
}  // namespace gpupool::engine

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: loader_speed small|large WORKERS SECONDS\n");
    return 2;
  }
  std::printf("{\"ms\": %.4f}\n", gpupool::engine::MillisecondsOfBatch(
                                      gpupool::engine::CaseOf(argv[1]),
                                      static_cast<uint32_t>(std::atoi(argv[2])),
                                      std::atof(argv[3])));
  return 0;
}
