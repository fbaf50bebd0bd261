#include "engine/serving/inference_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InferenceProgramsTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const ModelSource> Source(const v1::ModelSpec& model) {
    auto source = ModelSource::Open(model, "");
    EXPECT_TRUE(source.ok()) << source.status();
    return *source;
  }
  static v1::ModelSpec Model() {
    v1::ModelSpec spec;
    spec.add_input_shape(4);
    spec.add_layers()->mutable_dense()->set_units(8);
    spec.add_layers()->mutable_relu();
    spec.add_layers()->mutable_dense()->set_units(3);
    return spec;
  }

  CpuBackend backend_{1};
};

TEST(BatchBucketsTest, ArePowersOfTwoAndTheLimit) {
  EXPECT_THAT(BatchBuckets(1), ElementsAre(1));
  EXPECT_THAT(BatchBuckets(2), ElementsAre(1, 2));
  EXPECT_THAT(BatchBuckets(8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(BatchBuckets(11), ElementsAre(1, 2, 4, 8, 11));
}

TEST_F(InferenceProgramsTest, InferenceHasAProgramForEachBucket) {
  auto programs =
      CompileInference(*Source(Model()), {.max_batch_size = 4}, &backend_);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(programs->programs.size(), 3u);
  EXPECT_EQ(programs->inputs[0].port.example(), Shape({4}));
  EXPECT_EQ(programs->outputs[0].port.example(), Shape({3}));
  EXPECT_EQ(programs->layout.entries().size(), 4u);
  EXPECT_EQ(BytesOf(*programs).optimizer, 0u);
  uint64_t largest = 0;
  for (const InferenceProgram& program : programs->programs) {
    largest = std::max(largest, program.program.bytes().arena);
  }
  EXPECT_EQ(ArenaBytesOf(*programs), largest);
}

TEST_F(InferenceProgramsTest, ScalingAddsTwoStates) {
  auto programs =
      CompileInference(*Source(Model()),
                       {.input_scaling = true, .max_batch_size = 1}, &backend_);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_NE(programs->layout.Find("input.scale"), nullptr);
  EXPECT_NE(programs->layout.Find("input.shift"), nullptr);
}

// Returns the bytes that programs keep for weights, as values and not packed
// for a kernel.
uint64_t DerivedBytes(const InferencePrograms& programs) {
  absl::flat_hash_map<std::string, uint64_t> bytes;
  for (const InferenceProgram& program : programs.programs) {
    for (const ResidentItem& item : program.program.bytes().residents) {
      if (!absl::StartsWith(item.key, "packed")) bytes[item.key] = item.bytes;
    }
  }
  uint64_t sum = 0;
  for (const auto& [key, size] : bytes) sum += size;
  return sum;
}

// A batch norm is folded into each of the first two layers. Their weights stay
// float32 in the store. The folded copy exists once, in the type that products
// read.
TEST_F(InferenceProgramsTest, FoldedWeightsAreKeptInTheTypeThatIsRead) {
  v1::ModelSpec spec;
  for (const int64_t size : {8, 6, 6}) spec.add_input_shape(size);
  auto* conv = spec.add_layers()->mutable_conv2d();
  conv->set_filters(16);
  conv->add_kernel(3);
  conv->add_padding(1);
  spec.add_layers()->mutable_batch_norm();
  spec.add_layers()->mutable_relu();
  spec.add_layers()->mutable_flatten();
  spec.add_layers()->mutable_dense()->set_units(32);
  spec.add_layers()->mutable_batch_norm();
  spec.add_layers()->mutable_relu();
  spec.add_layers()->mutable_dense()->set_units(3);
  constexpr uint64_t kFolded =
      (16 * 8 * 3 * 3 + 16) + (16 * 6 * 6 * 32 + 32);  // numbers
  for (const DType compute :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(DTypeName(compute));
    auto programs = CompileInference(
        *Source(spec), {.max_batch_size = 4, .compute = compute}, &backend_);
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_EQ(DerivedBytes(*programs), kFolded * SizeOf(compute));
    for (const WeightEntry& entry : programs->layout.entries()) {
      const bool last = absl::StrContains(entry.name, "7");
      EXPECT_EQ(entry.dtype, last ? compute : DType::kFloat32) << entry.name;
    }
  }
}

TEST_F(InferenceProgramsTest, BatchLimitsAreNamed) {
  for (uint32_t batch : {0u, 1025u}) {
    auto programs = CompileInference(*Source(Model()),
                                     {.max_batch_size = batch}, &backend_);
    EXPECT_THAT(programs.status().message(), HasSubstr("from 1 to 1024"));
  }
}

TEST_F(InferenceProgramsTest, TheNumberOfProgramsIsLimited) {
  for (uint32_t count : {0u, 257u}) {
    auto programs = CompileInference(
        *Source(Model()), {.max_batch_size = 1, .max_programs = count},
        &backend_);
    EXPECT_THAT(programs.status().message(), HasSubstr("from 1 to 256"));
  }
}

// One size needs no room for other sizes.
TEST_F(InferenceProgramsTest, APlanOfOneSizeIsForItsProgramsAlone) {
  auto programs =
      CompileInference(*Source(Model()), {.max_batch_size = 4}, &backend_);
  ASSERT_TRUE(programs.ok());
  EXPECT_EQ(programs->max_programs, 0u);
}

}  // namespace
}  // namespace gpupool::engine
