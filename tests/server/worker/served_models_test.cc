#include "server/worker/served_models.h"

#include <array>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

worker::v1::LoadVersion LoadRequest(uint64_t id, const char* name = "m/1") {
  worker::v1::LoadVersion request;
  request.set_version_id(id);
  request.set_name(name);
  return request;
}

class ServedModelsTest : public ::testing::Test {
 protected:
  SlotTensor Rows(int64_t rows, uint64_t offset) {
    SlotTensor tensor = {};
    tensor.data_type = v1::FLOAT32;
    tensor.rank = 2;
    tensor.dims[0] = rows;
    tensor.dims[1] = 2;
    tensor.offset = offset;
    tensor.bytes = static_cast<uint64_t>(rows) * 8;
    return tensor;
  }
  SlotRequest Request(uint32_t rows) {
    SlotRequest request;
    request.header.version_id = 5;
    request.header.rows = rows;
    request.header.input_count = request.header.output_count = 1;
    request.header.inputs[0] = Rows(rows, 0);
    request.header.outputs[0] = Rows(rows, 64);
    request.payload = absl::MakeSpan(memory_);
    request.seen = absl::Now();
    return request;
  }

  testing_engine::FakeEngine engine_;
  ServedModels models_{&engine_};
  alignas(64) std::array<std::byte, 128> memory_ = {};
};

TEST_F(ServedModelsTest, AnswersInPlace) {
  ASSERT_TRUE(models_.Load(LoadRequest(5)).ok());
  const float value = 21;
  std::memcpy(&memory_[12], &value, 4);
  SlotRequest request = Request(2);
  ASSERT_TRUE(models_.Answer(&request).ok());
  float result = 0;
  std::memcpy(&result, &memory_[64 + 12], 4);
  EXPECT_EQ(result, 42);
  EXPECT_GT(request.header.compute_nanos, 0);
  EXPECT_GE(request.header.wait_nanos, 0);
}

TEST_F(ServedModelsTest, LoadIsIdempotentAndDescribesTheModel) {
  const auto first = models_.Load(LoadRequest(5));
  const auto second = models_.Load(LoadRequest(5));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
  EXPECT_EQ(first->measured_bytes(), 99u);
  EXPECT_EQ(first->inputs(0).shape(1), 2);
  EXPECT_EQ(models_.ids(), std::vector<uint64_t>{5});
}

TEST_F(ServedModelsTest, VersionThatCannotBeLoadedLeavesNothing) {
  EXPECT_EQ(models_.Load(LoadRequest(6, "missing/1")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(models_.ids().empty());
}

TEST_F(ServedModelsTest, UnknownVersionIsNotFound) {
  SlotRequest request = Request(1);
  EXPECT_EQ(models_.Answer(&request).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(models_.Unload(5).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(models_.Load(LoadRequest(5)).ok());
  EXPECT_TRUE(models_.Answer(&request).ok());
  EXPECT_TRUE(models_.Unload(5).ok());
  EXPECT_EQ(models_.Answer(&request).code(), absl::StatusCode::kNotFound);
}

TEST_F(ServedModelsTest, TensorsThatAreNotTheModelsAreRefused) {
  ASSERT_TRUE(models_.Load(LoadRequest(5)).ok());
  SlotRequest request = Request(2);
  request.header.rows = 3;
  EXPECT_EQ(models_.Answer(&request).code(),
            absl::StatusCode::kInvalidArgument);
  request = Request(2);
  request.header.inputs[0].data_type = v1::INT32;
  EXPECT_EQ(models_.Answer(&request).code(),
            absl::StatusCode::kInvalidArgument);
  request = Request(2);
  request.header.output_count = 0;
  EXPECT_EQ(models_.Answer(&request).code(),
            absl::StatusCode::kInvalidArgument);
  request = Request(2);
  request.header.outputs[0] = Rows(1, 64);
  EXPECT_EQ(models_.Answer(&request).code(),
            absl::StatusCode::kInvalidArgument);
}

// Takes INT16 and gives UINT16, both of which slots hold as INT32.
class WidenedModel : public engine::ServedModel {
 public:
  WidenedModel() {
    inputs_[0].set_data_type(v1::INT16);
    inputs_[0].add_shape(-1);
    inputs_[0].add_shape(2);
    outputs_ = inputs_;
    outputs_[0].set_data_type(v1::UINT16);
  }
  const std::vector<v1::TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<v1::TensorSpec>& outputs() const override {
    return outputs_;
  }
  uint64_t measured_bytes() const override { return 0; }
  const std::vector<std::string>& dimensions() const override {
    return dimensions_;
  }
  absl::Status Infer(const engine::InferenceBatch&,
                     engine::InferenceAnswer*) override {
    return absl::OkStatus();
  }

 private:
  std::vector<v1::TensorSpec> inputs_{1}, outputs_;
  std::vector<std::string> dimensions_;
};

class WidenedEngine : public testing_engine::FakeEngine {
 public:
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion&) override {
    return std::make_unique<WidenedModel>();
  }
};

TEST_F(ServedModelsTest, SlotsHoldWidenedTypesInWiderOnes) {
  WidenedEngine engine;
  ServedModels models(&engine);
  const auto reply = models.Load(LoadRequest(5));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->inputs(0).data_type(), v1::INT16);
  EXPECT_EQ(reply->outputs(0).data_type(), v1::UINT16);
  SlotRequest request = Request(2);
  request.header.inputs[0].data_type = v1::INT32;
  request.header.outputs[0].data_type = v1::INT32;
  EXPECT_TRUE(models.Answer(&request).ok()) << models.Answer(&request);
  request.header.inputs[0].data_type = v1::INT16;
  request.header.inputs[0].bytes = 8;
  EXPECT_EQ(models.Answer(&request).code(), absl::StatusCode::kInvalidArgument);
}

// Answers with an output of the shape `shape_`, whatever was asked.
class ShapedEngine : public testing_engine::FakeEngine {
 public:
  class Model : public engine::ServedModel {
   public:
    Model() {
      specs_[0].set_data_type(v1::FLOAT32);
      specs_[0].add_shape(1);
      specs_[0].add_shape(2);
    }
    const std::vector<v1::TensorSpec>& inputs() const override {
      return specs_;
    }
    const std::vector<v1::TensorSpec>& outputs() const override {
      return specs_;
    }
    uint64_t measured_bytes() const override { return 0; }
    const std::vector<std::string>& dimensions() const override {
      return dimensions_;
    }
    absl::Status Infer(const engine::InferenceBatch&,
                       engine::InferenceAnswer* answer) override {
      answer->shapes = {shape_};
      return absl::OkStatus();
    }
    std::vector<int64_t> shape_;

   private:
    std::vector<v1::TensorSpec> specs_{1};
    std::vector<std::string> dimensions_;
  };
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion&) override {
    auto model = std::make_unique<Model>();
    model->shape_ = shape_;
    return model;
  }
  std::vector<int64_t> shape_;
};

TEST_F(ServedModelsTest, AnOutputOfAnotherRankIsReported) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2}, {1, 2, 1}, {}, {1, 2}}) {
    ShapedEngine engine;
    engine.shape_ = shape;
    ServedModels models(&engine);
    ASSERT_TRUE(models.Load(LoadRequest(5)).ok());
    SlotRequest request = Request(1);
    const absl::Status status = models.Answer(&request);
    ASSERT_TRUE(status.ok()) << status;
    SlotHeader taken = request.header;
    ASSERT_TRUE(TakeOutputDims(request.header, &taken).ok());
    const SlotTensor& output = taken.outputs[0];
    EXPECT_EQ(std::vector<int64_t>(output.dims, output.dims + output.rank),
              shape);
  }
}

// Adds whole numbers to floats, without a batch dimension.
class AddingModel : public engine::ServedModel {
 public:
  AddingModel() {
    specs_[0].set_data_type(v1::FLOAT32);
    specs_[0].add_shape(2);
    specs_[1].set_data_type(v1::INT64);
    specs_[1].add_shape(2);
    sum_[0] = specs_[0];
  }
  const std::vector<v1::TensorSpec>& inputs() const override { return specs_; }
  const std::vector<v1::TensorSpec>& outputs() const override { return sum_; }
  uint64_t measured_bytes() const override { return 0; }
  const std::vector<std::string>& dimensions() const override {
    return dimensions_;
  }
  absl::Status Infer(const engine::InferenceBatch& batch,
                     engine::InferenceAnswer*) override {
    const auto* a = reinterpret_cast<const float*>(batch.inputs[0].data());
    const auto* b = reinterpret_cast<const int64_t*>(batch.inputs[1].data());
    auto* sum = reinterpret_cast<float*>(batch.outputs[0].data());
    for (int i = 0; i < 2; ++i) sum[i] = a[i] + static_cast<float>(b[i]);
    return absl::OkStatus();
  }

 private:
  std::vector<v1::TensorSpec> specs_{2};
  std::vector<v1::TensorSpec> sum_{1};
  std::vector<std::string> dimensions_;
};

class AddingEngine : public testing_engine::FakeEngine {
 public:
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion&) override {
    return std::make_unique<AddingModel>();
  }
};

TEST_F(ServedModelsTest, TensorsOfSeveralTypesGoByPosition) {
  AddingEngine engine;
  ServedModels models(&engine);
  const auto reply = models.Load(LoadRequest(5));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->inputs_size(), 2);
  const float floats[] = {0.5f, 1};
  const int64_t wholes[] = {40, -2};
  std::memcpy(memory_.data(), floats, sizeof(floats));
  std::memcpy(memory_.data() + 64, wholes, sizeof(wholes));
  SlotRequest request = Request(1);
  request.header.inputs[0].bytes = 8;
  request.header.input_count = 2;
  request.header.inputs[1] = Rows(1, 64);
  request.header.inputs[1].data_type = v1::INT64;
  request.header.inputs[1].bytes = 16;
  request.header.outputs[0] = Rows(1, 80);
  const absl::Status status = models.Answer(&request);
  ASSERT_TRUE(status.ok()) << status;
  float sums[2];
  std::memcpy(sums, memory_.data() + 80, sizeof(sums));
  EXPECT_EQ(sums[0], 40.5f);
  EXPECT_EQ(sums[1], -1);
  request.header.input_count = 1;
  EXPECT_EQ(models.Answer(&request).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::server
