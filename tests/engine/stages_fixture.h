// A session that loads ONNX models and asks them with tensors of any type.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/held_data_type.h"
#include "engine/base/sha256.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {

// A tensor of a request.
struct Sent {
  std::vector<std::byte> bytes;

  template <typename T>
  static Sent Of(const std::vector<T>& numbers) {
    Sent sent;
    for (const T number : numbers) {
      const auto* from = reinterpret_cast<const std::byte*>(&number);
      sent.bytes.insert(sent.bytes.end(), from, from + sizeof(T));
    }
    return sent;
  }
};

// A tensor of an answer: exactly the bytes of its shape.
struct Received {
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  template <typename T>
  std::vector<T> As() const {
    std::vector<T> numbers(bytes.size() / sizeof(T));
    if (!numbers.empty()) {
      std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
    }
    return numbers;
  }
};

class StagesFixture : public SessionFixture {
 protected:
  v1::ModelSpec Store(const std::string& bytes) {
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    return spec;
  }

  absl::StatusOr<std::unique_ptr<ServedModel>> Load(
      const v1::ModelSpec& spec, uint32_t max_programs = 16) {
    const ServingLimits limits{.max_batch_size = 4,
                               .max_programs = max_programs};
    auto imported = session_->ImportModel(spec, "", limits);
    if (!imported.ok()) return imported.status();
    plan_ = imported->plan;
    return session_->LoadModel({.version_id = 1,
                                .name = absl::StrCat("staged/", ++loads_),
                                .manifest_sha256 = imported->manifest_sha256,
                                .max_batch_size = 4,
                                .limit_bytes = plan_.inference().peak(),
                                .max_programs = max_programs});
  }

  // Sends one request. Also checks that the version holds no more than the
  // plan says.
  absl::StatusOr<std::vector<Received>> Ask(ServedModel& model,
                                            const std::vector<Sent>& sent) {
    std::vector<absl::Span<const std::byte>> inputs;
    for (const Sent& tensor : sent) inputs.push_back(tensor.bytes);
    std::vector<std::vector<std::byte>> space;
    std::vector<absl::Span<std::byte>> outputs;
    for (const v1::TensorSpec& spec : model.outputs()) {
      size_t bytes = ElementBytesOf(spec.data_type());
      for (const v1::VariableDimension& axis : spec.variable()) {
        bytes *= static_cast<size_t>(axis.maximum());
      }
      space.emplace_back(bytes);
    }
    for (std::vector<std::byte>& bytes : space) {
      outputs.push_back(absl::MakeSpan(bytes));
    }
    answer_ = {};
    const absl::Status status = model.Infer(
        {.rows = 1, .inputs = inputs, .outputs = outputs}, &answer_);
    EXPECT_LE(model.measured_bytes(), plan_.inference().peak());
    if (!status.ok()) return status;
    std::vector<Received> received;
    for (size_t i = 0; i < space.size(); ++i) {
      Received& tensor = received.emplace_back();
      tensor.shape = answer_.shapes[i];
      size_t bytes = ElementBytesOf(model.outputs()[i].data_type());
      for (const int64_t size : tensor.shape) {
        bytes *= static_cast<size_t>(size);
      }
      tensor.bytes.assign(space[i].begin(),
                          space[i].begin() + static_cast<int64_t>(bytes));
    }
    return received;
  }

  // Returns the bytes of an element that programs compute with.
  static size_t ElementBytesOf(v1::DataType type) {
    switch (HeldDataType(static_cast<uint32_t>(type))) {
#define GPUPOOL_DTYPE(dtype, message, name, bytes, ...) \
  case v1::message:                                     \
    return bytes;
#include "engine/base/dtype_table.inc"
      default:
        return 0;
    }
  }

  v1::Plan plan_;
  InferenceAnswer answer_;
  int loads_ = 0;
};

}  // namespace gpupool::engine
