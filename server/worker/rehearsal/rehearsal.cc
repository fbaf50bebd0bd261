#include "server/worker/rehearsal/rehearsal.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/held_data_type.h"
#include "engine/base/philox.h"
#include "engine/base/size_expression.h"
#include "engine/base/status_macros.h"
#include "server/ipc/slot_layout.h"
#include "server/worker/rehearsal/alarm.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kSeed = 1;
// Largest batch that is tried. Batches that are served are smaller, since a
// slot holds them.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

// Sizes of a batch: its rows, and the dimensions of several sizes by name.
struct BatchSize {
  uint32_t rows = 1;
  std::map<std::string, int64_t> dimensions;
};

bool HasBatch(const v1::TensorSpec& spec) {
  return spec.shape_size() > 0 && spec.shape(0) < 0 &&
         (spec.variable().empty() || spec.variable(0).axis() != 0);
}

bool HasBatch(const engine::ServedModel& model) {
  // Bound inputs have none.
  return std::any_of(model.outputs().begin(), model.outputs().end(),
                     [](const v1::TensorSpec& spec) { return HasBatch(spec); });
}

// Returns 1, 2, 4, ... and the largest number of rows.
std::vector<uint32_t> BatchesOf(const engine::ServedModel& model,
                                uint32_t max_batch_size) {
  if (!HasBatch(model)) return {1};
  std::vector<uint32_t> batches;
  for (uint32_t rows = 1; rows < max_batch_size; rows *= 2) {
    batches.push_back(rows);
  }
  batches.push_back(std::max(max_batch_size, 1u));
  return batches;
}

// Returns the size of a dimension of a tensor; the largest if only the program
// knows it, or if the sizes give none.
int64_t SizeOf(const v1::VariableDimension& dimension, const BatchSize& batch) {
  const auto size_of = [&](const std::string& name) {
    const auto found = batch.dimensions.find(name);
    return found == batch.dimensions.end() ? 0 : found->second;
  };
  if (!dimension.name().empty()) return size_of(dimension.name());
  if (dimension.size().empty()) return dimension.maximum();
  const auto expression = engine::SizeExpression::Parse(dimension.size());
  if (!expression.ok()) return dimension.maximum();
  std::vector<int64_t> sizes;
  for (const std::string& name : expression->names()) {
    sizes.push_back(size_of(name));
  }
  const auto size = expression->Value(sizes);
  return size.ok() && *size >= 0 ? *size : dimension.maximum();
}

// Returns the bytes of an element that the model computes with.
uint64_t HeldBytes(v1::DataType type) {
  return SlotElementBytes(engine::HeldDataType(static_cast<uint32_t>(type)));
}

uint64_t BytesOf(const v1::TensorSpec& spec, const BatchSize& size) {
  uint64_t elements = HasBatch(spec) ? size.rows : 1;
  for (int64_t dimension : spec.shape()) {
    if (dimension >= 0) elements *= static_cast<uint64_t>(dimension);
  }
  for (const v1::VariableDimension& dimension : spec.variable()) {
    elements *= static_cast<uint64_t>(SizeOf(dimension, size));
  }
  return elements * HeldBytes(spec.data_type());
}

uint64_t BytesOf(const engine::ServedModel& model, const BatchSize& size) {
  uint64_t bytes = 0;
  for (const auto* specs : {&model.inputs(), &model.outputs()}) {
    for (const v1::TensorSpec& spec : *specs) bytes += BytesOf(spec, size);
  }
  return bytes;
}

// Returns the smallest or the largest sizes.
BatchSize SizesOf(const engine::ServedModel& model, uint32_t rows,
                  bool largest) {
  BatchSize batch{.rows = rows};
  // A dimension that no input varies in has one size, which is 1.
  for (const std::string& name : model.dimensions()) batch.dimensions[name] = 1;
  for (const v1::TensorSpec& spec : model.inputs()) {
    for (const v1::VariableDimension& dimension : spec.variable()) {
      if (dimension.name().empty()) continue;
      batch.dimensions[dimension.name()] =
          largest ? dimension.maximum() : dimension.minimum();
    }
  }
  return batch;
}

// Fills the tensor with numbers from -1 to 1, or with the integers 0 and 1.
void FillRandomly(v1::DataType type, engine::Philox& random, Bytes& tensor) {
  const size_t size = HeldBytes(type);
  if (size == 0) return;  // texts, which the server computes
  for (size_t at = 0; at + size <= tensor.size(); at += size) {
    const float number = 2 * random.NextFloat() - 1;
    const double wide = number;
    const uint64_t whole = number > 0 ? 1 : 0;
    // Half precision: 0 or a small number of either format.
    const uint64_t half = number > 0 ? 0x3800 : 0;
    const bool is_half = type == v1::FLOAT16 || type == v1::BFLOAT16;
    const void* from = is_half ? &half : &whole;
    if (type == v1::FLOAT32) from = &number;
    if (type == v1::FLOAT64) from = &wide;
    std::memcpy(tensor.data() + at, from, size);
  }
}

// Runs one batch on zeros or on random numbers. Fails only when the run leaves
// the plan.
absl::Status RunBatch(engine::ServedModel& model, const BatchSize& size,
                      bool random_numbers) {
  engine::Philox random(kSeed);
  std::vector<Bytes> tensors;
  tensors.reserve(model.inputs().size() + model.outputs().size());
  std::vector<absl::Span<const std::byte>> inputs;
  for (const v1::TensorSpec& spec : model.inputs()) {
    Bytes& tensor = tensors.emplace_back(BytesOf(spec, size));
    if (random_numbers) FillRandomly(spec.data_type(), random, tensor);
    inputs.push_back(tensor);
  }
  std::vector<absl::Span<std::byte>> outputs;
  for (const v1::TensorSpec& spec : model.outputs()) {
    outputs.push_back(
        absl::MakeSpan(tensors.emplace_back(BytesOf(spec, size))));
  }
  std::vector<int64_t> sizes;
  for (const std::string& name : model.dimensions()) {
    sizes.push_back(size.dimensions.at(name));
  }
  engine::InferenceAnswer answer;
  const absl::Status ran =
      model.Infer({size.rows, sizes, inputs, outputs}, &answer);
  if (absl::IsResourceExhausted(ran)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a batch of ", size.rows, " rows: ", ran.message()));
  }
  return absl::OkStatus();
}

absl::Status RunBatches(engine::ServedModel& model, uint32_t max_batch_size) {
  const Clock::time_point end =
      Clock::now() + absl::ToChronoNanoseconds(kRehearsedRuns);
  for (const uint32_t rows : BatchesOf(model, max_batch_size)) {
    for (const bool largest : {false, true}) {
      if (!largest && model.dimensions().empty()) continue;
      const BatchSize size = SizesOf(model, rows, largest);
      if (BytesOf(model, size) > kMostBytes) continue;
      for (const bool random_numbers : {false, true}) {
        if (Clock::now() > end) return absl::OkStatus();
        RETURN_IF_ERROR(RunBatch(model, size, random_numbers));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<worker::v1::VersionReply> Rehearse(
    Engine& engine, const worker::v1::LoadVersion& request) {
  const Clock::time_point begin = Clock::now();
  const Alarm alarm(RehearsalLimit(request.limit_bytes()));
  worker::v1::LoadVersion load = request;
  // The plan of this process's kind of device is the limit.
  load.set_limit_bytes(0);
  load.set_benchmark(false);
  worker::v1::VersionReply reply;
  reply.set_version_id(request.version_id());
  auto model = engine.LoadModel(load);
  if (absl::IsResourceExhausted(model.status())) {
    spdlog::warn("no room for a rehearsal name={} error=\"{}\"", request.name(),
                 model.status().ToString());
    return reply;
  }
  RETURN_IF_ERROR(model.status());
  RETURN_IF_ERROR(RunBatches(**model, request.max_batch_size()));
  reply.set_measured_bytes((*model)->measured_bytes());
  spdlog::info("rehearsed name={} milliseconds={}", request.name(),
               (Clock::now() - begin) / std::chrono::milliseconds(1));
  return reply;
}

}  // namespace gpupool::server
