#include "engine/model/weights_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/model/safetensors.h"
#include "engine/tensor/convert.h"
#include "gpupool/v1/model.pb.h"
#include "tests/engine/scratch_folder.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Given {
  std::vector<int64_t> dims;
  DType dtype = DType::kFloat32;
};

// A dense layer of 2 units on 3 numbers.
class WeightsSourceTest : public ::testing::Test {
 protected:
  v1::WeightsFile StoreBytes(const std::string& bytes) const {
    v1::WeightsFile file;
    file.set_sha256(Sha256Hex(bytes));
    file.set_bytes(bytes.size());
    std::ofstream(folder_.path() + "/" + file.sha256(), std::ios::binary)
        << bytes;
    return file;
  }
  // Stores a file in which every tensor has the numbers 1, 2, 3, ...
  v1::WeightsFile Store(const std::map<std::string, Given>& tensors) const {
    std::vector<TensorFacts> facts;
    std::string data;
    for (const auto& [name, given] : tensors) {
      facts.push_back({name, given.dtype, *Shape::Create(given.dims)});
      std::vector<double> numbers(
          static_cast<size_t>(facts.back().shape.elements()));
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<double>(i + 1);
      }
      std::string bytes(facts.back().bytes(), '\0');
      WriteFromDoubles(given.dtype, numbers, 1,
                       reinterpret_cast<std::byte*>(bytes.data()));
      data += bytes;
    }
    return StoreBytes(SafetensorsHeader(facts) + data);
  }

  absl::StatusOr<std::shared_ptr<const ModelSource>> Open(
      const v1::WeightsFile& file) const {
    v1::ModelSpec spec = testing::ModelFromText(
        "input_shape: 3 layers { name: 'fc' dense { units: 2 } }");
    *spec.mutable_weights() = file;
    return ModelSource::Open(spec, folder_.path());
  }
  std::string Refusal(const v1::WeightsFile& file) const {
    const absl::Status status = Open(file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  ScratchFolder folder_;
};

TEST_F(WeightsSourceTest, FloatingTypesAreConverted) {
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const auto source = Open(
        Store({{"fc.weight", {{2, 3}, dtype}}, {"fc.bias", {{2}, dtype}}}));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto model = (*source)->Build({});
    ASSERT_TRUE(model.ok());
    for (const PersistentSpec& spec : model->persistents) {
      EXPECT_EQ(spec.initializer.kind, Initializer::Kind::kStored);
      EXPECT_EQ(spec.dtype, DType::kFloat32);
    }
    float numbers[6];
    ASSERT_TRUE(
        (*source)
            ->ReadStored("fc.weight",
                         absl::MakeSpan(reinterpret_cast<std::byte*>(numbers),
                                        sizeof(numbers)))
            .ok());
    EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(WeightsSourceTest, CountsOfBatchesAreIgnored) {
  EXPECT_TRUE(Open(Store({{"fc.weight", {{2, 3}}},
                          {"fc.bias", {{2}}},
                          {"bn.num_batches_tracked", {{1}, DType::kInt64}}}))
                  .ok());
}

TEST_F(WeightsSourceTest, AllDifferencesAreNamed) {
  EXPECT_THAT(
      Refusal(Store({{"fc.weight", {{3, 2}}}, {"fc2.bias", {{2}}}})),
      AllOf(HasSubstr("1 missing: 'fc.bias'; 1 not in the model: 'fc2.bias'; 1 "
                      "of another shape: 'fc.weight' ([3, 2], the model has "
                      "[2, 3])"),
            HasSubstr("models export")));
  EXPECT_THAT(Refusal(Store({{"fc.weight", {{2, 3}}},
                             {"fc.bias", {{2}, DType::kInt32}}})),
              HasSubstr("1 of another type: 'fc.bias' (int32, the model has "
                        "float32)"));
}

TEST_F(WeightsSourceTest, LongListsAreCut) {
  std::map<std::string, Given> tensors;
  for (char c = 'a'; c <= 'l'; ++c) tensors[std::string(1, c)] = {{1}};
  EXPECT_THAT(Refusal(Store(tensors)),
              AllOf(HasSubstr("12 not in the model: 'a', "),
                    HasSubstr("'j' and 2 more"), Not(HasSubstr("'k'"))));
}

TEST_F(WeightsSourceTest, BrokenFilesAreRefused) {
  EXPECT_THAT(Refusal(StoreBytes("12345678{}")), HasSubstr("safetensors"));
  const std::string twice =
      R"({"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(twice.size());
  EXPECT_THAT(Refusal(StoreBytes(bytes + twice + std::string(16, '\0'))),
              HasSubstr("repeats a name"));
  const std::string beyond =
      R"({"fc.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  bytes[0] = static_cast<char>(beyond.size());
  EXPECT_THAT(Refusal(StoreBytes(bytes + beyond)), HasSubstr("do not fit"));
}

TEST_F(WeightsSourceTest, TheBlobMustBeStored) {
  v1::WeightsFile file;
  file.set_sha256(std::string(64, 'a'));
  EXPECT_EQ(Open(file).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine
