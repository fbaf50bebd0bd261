#include "server/worker/rehearsal/rehearsal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using testing_engine::FakeEngine;

struct Batch {
  uint32_t rows = 0;
  std::vector<int64_t> sizes;
  std::vector<uint64_t> input_bytes;
  std::vector<uint64_t> output_bytes;
  bool zeros = true;
};

// A model that notes what it is asked.
class NotingModel : public engine::ServedModel {
 public:
  NotingModel(std::vector<v1::TensorSpec> inputs,
              std::vector<v1::TensorSpec> outputs, std::vector<Batch>* runs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), runs_(runs) {
    for (const auto& variable : inputs_[0].variable()) {
      dimensions_.push_back(variable.name());
    }
  }
  const std::vector<v1::TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<v1::TensorSpec>& outputs() const override {
    return outputs_;
  }
  const std::vector<std::string>& dimensions() const override {
    return dimensions_;
  }
  uint64_t measured_bytes() const override { return 7; }
  absl::Status Infer(const engine::InferenceBatch& batch,
                     engine::InferenceAnswer*) override {
    Batch run{
        batch.rows, {batch.sizes.begin(), batch.sizes.end()}, {}, {}, true};
    for (const auto& tensor : batch.inputs) {
      run.input_bytes.push_back(tensor.size());
      for (std::byte byte : tensor) run.zeros &= byte == std::byte{0};
    }
    for (const auto& tensor : batch.outputs) {
      run.output_bytes.push_back(tensor.size());
    }
    runs_->push_back(std::move(run));
    return answer;
  }

  absl::Status answer;

 private:
  std::vector<v1::TensorSpec> inputs_, outputs_;
  std::vector<std::string> dimensions_;
  std::vector<Batch>* runs_;
};

// An engine that loads that model.
class NotingEngine : public FakeEngine {
 public:
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion&) override {
    if (!load_status.ok()) return load_status;
    auto model = std::make_unique<NotingModel>(inputs, outputs, &runs);
    model->answer = run_status;
    return std::unique_ptr<engine::ServedModel>(std::move(model));
  }

  std::vector<v1::TensorSpec> inputs, outputs;
  std::vector<Batch> runs;
  absl::Status load_status, run_status;
};

v1::TensorSpec Tensor(v1::DataType type, const std::vector<int64_t>& shape) {
  v1::TensorSpec spec;
  spec.set_data_type(type);
  spec.mutable_shape()->Add(shape.begin(), shape.end());
  return spec;
}

worker::v1::LoadVersion Request(uint32_t max_batch_size) {
  worker::v1::LoadVersion request;
  request.set_name("digits/1");
  request.set_max_batch_size(max_batch_size);
  return request;
}

TEST(RehearsalTest, RunsEveryBatchSizeOnZerosAndOnNumbers) {
  NotingEngine engine;
  engine.inputs = {Tensor(v1::FLOAT32, {-1, 3}), Tensor(v1::INT64, {-1})};
  engine.outputs = {Tensor(v1::FLOAT16, {-1, 5})};
  const auto reply = Rehearse(engine, Request(4));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->measured_bytes(), 7u);
  ASSERT_EQ(engine.runs.size(), 6u);
  for (size_t i = 0; i < engine.runs.size(); ++i) {
    const Batch& run = engine.runs[i];
    EXPECT_EQ(run.rows, 1u << (i / 2));
    EXPECT_EQ(run.zeros, i % 2 == 0);
    EXPECT_EQ(run.input_bytes,
              (std::vector<uint64_t>{12 * run.rows, 8 * run.rows}));
    EXPECT_EQ(run.output_bytes, (std::vector<uint64_t>{10 * run.rows}));
  }
}

TEST(RehearsalTest, WidenedTypesHaveTheBytesOfTheTypesThatHoldThem) {
  NotingEngine engine;
  engine.inputs = {Tensor(v1::UINT16, {-1, 3}), Tensor(v1::UINT32, {-1})};
  engine.outputs = {Tensor(v1::INT16, {-1, 5})};
  ASSERT_TRUE(Rehearse(engine, Request(1)).ok());
  ASSERT_EQ(engine.runs.size(), 2u);
  EXPECT_EQ(engine.runs[1].input_bytes, (std::vector<uint64_t>{12, 8}));
  EXPECT_EQ(engine.runs[1].output_bytes, (std::vector<uint64_t>{20}));
}

TEST(RehearsalTest, RunsTheSmallestAndTheLargestSizesOfADimension) {
  NotingEngine engine;
  v1::TensorSpec input = Tensor(v1::FLOAT32, {-1, -1, 2});
  v1::VariableDimension& dimension = *input.add_variable();
  dimension.set_axis(1);
  dimension.set_name("sequence");
  dimension.set_minimum(1);
  dimension.set_maximum(9);
  v1::TensorSpec output = input;
  output.mutable_variable(0)->clear_name();  // only the program knows its size
  engine.inputs = {input};
  engine.outputs = {output};
  ASSERT_TRUE(Rehearse(engine, Request(1)).ok());
  ASSERT_EQ(engine.runs.size(), 4u);
  EXPECT_EQ(engine.runs[0].sizes, std::vector<int64_t>{1});
  EXPECT_EQ(engine.runs[0].input_bytes, std::vector<uint64_t>{8});
  EXPECT_EQ(engine.runs[0].output_bytes, std::vector<uint64_t>{72});
  EXPECT_EQ(engine.runs[2].sizes, std::vector<int64_t>{9});
  EXPECT_EQ(engine.runs[2].input_bytes, std::vector<uint64_t>{72});
}

TEST(RehearsalTest, SizesThatFollowFromOthersAreComputed) {
  NotingEngine engine;
  v1::TensorSpec input = Tensor(v1::FLOAT32, {-1, -1});
  v1::VariableDimension& dimension = *input.add_variable();
  dimension.set_axis(1);
  dimension.set_name("past");
  dimension.set_maximum(9);  // the minimum is 0
  v1::TensorSpec output = input;
  output.mutable_variable(0)->clear_name();
  output.mutable_variable(0)->set_size("past + 1");
  output.mutable_variable(0)->set_maximum(10);
  engine.inputs = {input};
  engine.outputs = {output};
  ASSERT_TRUE(Rehearse(engine, Request(1)).ok());
  ASSERT_EQ(engine.runs.size(), 4u);
  EXPECT_EQ(engine.runs[0].sizes, std::vector<int64_t>{0});
  EXPECT_EQ(engine.runs[0].input_bytes, std::vector<uint64_t>{0});
  EXPECT_EQ(engine.runs[0].output_bytes, std::vector<uint64_t>{4});
  EXPECT_EQ(engine.runs[2].sizes, std::vector<int64_t>{9});
  EXPECT_EQ(engine.runs[2].output_bytes, std::vector<uint64_t>{40});
}

TEST(RehearsalTest, AModelWithoutABatchRunsOneRequestAtATime) {
  NotingEngine engine;
  engine.inputs = engine.outputs = {Tensor(v1::FLOAT32, {2})};
  ASSERT_TRUE(Rehearse(engine, Request(32)).ok());
  EXPECT_EQ(engine.runs.size(), 2u);
}

TEST(RehearsalTest, BatchesThatNoSlotHoldsAreLeftOut) {
  NotingEngine engine;
  engine.inputs = engine.outputs = {Tensor(v1::FLOAT32, {-1, 20 << 20})};
  ASSERT_TRUE(Rehearse(engine, Request(1024)).ok());
  EXPECT_EQ(engine.runs.size(), 2u);  // two rows have 320 MiB
}

TEST(RehearsalTest, ARunThatLeavesThePlanIsRefused) {
  NotingEngine engine;
  engine.inputs = engine.outputs = {Tensor(v1::FLOAT32, {-1, 2})};
  engine.run_status = absl::ResourceExhaustedError("too much");
  EXPECT_EQ(Rehearse(engine, Request(1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  // It may refuse numbers that mean nothing to it.
  engine.run_status = absl::OutOfRangeError("no such index");
  EXPECT_TRUE(Rehearse(engine, Request(1)).ok());
}

TEST(RehearsalTest, AModelThatCannotBeLoadedIsRefused) {
  NotingEngine engine;
  engine.load_status = absl::InvalidArgumentError("no such layer");
  EXPECT_EQ(Rehearse(engine, Request(1)).status(), engine.load_status);
  // Whether it fits a device is for the scheduler to decide.
  engine.load_status = absl::ResourceExhaustedError("no room");
  EXPECT_TRUE(Rehearse(engine, Request(1)).ok());
}

}  // namespace
}  // namespace gpupool::server
