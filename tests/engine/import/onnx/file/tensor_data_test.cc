#include "engine/import/onnx/file/tensor_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorProto Tensor(int data_type, std::vector<int64_t> dims) {
  TensorProto tensor;
  tensor.set_name("t");
  tensor.set_data_type(data_type);
  for (int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

template <typename T>
std::string Raw(std::vector<T> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(T)};
}

std::vector<double> Read(const TensorProto& tensor) {
  absl::StatusOr<HostTensor> host = ReadTensor(tensor, {});
  EXPECT_TRUE(host.ok()) << host.status();
  return host.ok() ? host->numbers : std::vector<double>();
}

void ExpectRefusedTensor(const TensorProto& tensor, const std::string& text) {
  const absl::Status status = DescribeTensor(tensor, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(TensorDataTest, ReadsRawDataOfEveryType) {
  const auto read = [](int type, const std::string& raw) {
    TensorProto tensor = Tensor(type, {2});
    tensor.set_raw_data(raw);
    return Read(tensor);
  };
  EXPECT_THAT(read(TensorProto::FLOAT, Raw<float>({1.5f, -2})),
              ElementsAre(1.5, -2));
  EXPECT_THAT(read(TensorProto::DOUBLE, Raw<double>({1.5, -2})),
              ElementsAre(1.5, -2));
  EXPECT_THAT(read(TensorProto::FLOAT16, Raw<uint16_t>({0x3c00, 0xc000})),
              ElementsAre(1, -2));
  EXPECT_THAT(read(TensorProto::BFLOAT16, Raw<uint16_t>({0x3f80, 0xc000})),
              ElementsAre(1, -2));
  EXPECT_THAT(read(TensorProto::INT8, Raw<int8_t>({-1, 2})),
              ElementsAre(-1, 2));
  EXPECT_THAT(read(TensorProto::UINT8, Raw<uint8_t>({255, 2})),
              ElementsAre(255, 2));
  EXPECT_THAT(read(TensorProto::INT32, Raw<int32_t>({-1, 2})),
              ElementsAre(-1, 2));
  EXPECT_THAT(read(TensorProto::INT64, Raw<int64_t>({-1, 2})),
              ElementsAre(-1, 2));
  EXPECT_THAT(read(TensorProto::BOOL, std::string("\x02\x00", 2)),
              ElementsAre(1, 0));
  EXPECT_THAT(read(TensorProto::INT16, Raw<int16_t>({-1, 2})),
              ElementsAre(-1, 2));
  EXPECT_THAT(read(TensorProto::UINT16, Raw<uint16_t>({65535, 2})),
              ElementsAre(65535, 2));
  EXPECT_THAT(read(TensorProto::UINT32, Raw<uint32_t>({~0u, 2})),
              ElementsAre(4294967295.0, 2));
}

TEST(TensorDataTest, ReadsTypedFields) {
  TensorProto floats = Tensor(TensorProto::FLOAT, {2});
  floats.add_float_data(1.5f);
  floats.add_float_data(2);
  EXPECT_THAT(Read(floats), ElementsAre(1.5, 2));
  for (const int type : {TensorProto::INT8, TensorProto::UINT8,
                         TensorProto::INT16, TensorProto::INT32}) {
    TensorProto integers = Tensor(type, {2});
    integers.add_int32_data(3);
    integers.add_int32_data(100);
    EXPECT_THAT(Read(integers), ElementsAre(3, 100)) << type;
  }
  TensorProto half = Tensor(TensorProto::FLOAT16, {1});
  half.add_int32_data(0xc000);
  EXPECT_THAT(Read(half), ElementsAre(-2));
  TensorProto large = Tensor(TensorProto::INT64, {1});
  large.add_int64_data(int64_t{1} << 40);
  EXPECT_THAT(Read(large), ElementsAre(0x1p40));
  TensorProto unsigned_number = Tensor(TensorProto::UINT32, {1});
  unsigned_number.add_uint64_data(7);
  EXPECT_THAT(Read(unsigned_number), ElementsAre(7));
}

// Float8 and int4, packed into raw bytes or into one entry per byte.
TEST(TensorDataTest, ReadsNarrowTypes) {
  TensorProto real = Tensor(17, {2});
  real.set_raw_data("\x38\xb8");
  EXPECT_THAT(Read(real), ElementsAre(1, -1));
  EXPECT_EQ(DescribeTensor(real, {})->dtype, DType::kFloat16);
  TensorProto packed = Tensor(22, {3});
  packed.set_raw_data("\x7f\x08");
  EXPECT_THAT(Read(packed), ElementsAre(-1, 7, -8));
  TensorProto entries = Tensor(22, {3});
  entries.add_int32_data(0x7f);
  entries.add_int32_data(0x08);
  EXPECT_THAT(Read(entries), ElementsAre(-1, 7, -8));
  entries.add_int32_data(0);
  ExpectRefusedTensor(entries, "has 3 numbers; its shape takes 2");
  packed.set_raw_data("\x7f");
  ExpectRefusedTensor(packed, "its shape takes 2");
  EXPECT_TRUE(IsWidened(17));
  EXPECT_EQ(OnnxTypeName(22), "INT4");
}

TEST(TensorDataTest, WideIntegersAreNamedByTheirTypeInTheFile) {
  EXPECT_EQ(WidenedFromOnnx(TensorProto::UINT16), WidenedType::kUint16);
  EXPECT_EQ(WidenedFromOnnx(TensorProto::INT16), WidenedType::kInt16);
  EXPECT_EQ(WidenedFromOnnx(TensorProto::UINT32), WidenedType::kUint32);
  EXPECT_EQ(WidenedFromOnnx(TensorProto::UINT64), WidenedType::kUint64);
  for (int type :
       {int{TensorProto::INT32}, int{TensorProto::UINT8}, 17, 22, -1, 1000}) {
    EXPECT_EQ(WidenedFromOnnx(type), std::nullopt) << type;
  }
}

TEST(TensorDataTest, AnEmptyTensorNeedsNoData) {
  EXPECT_TRUE(Read(Tensor(TensorProto::FLOAT, {0, 3})).empty());
}

TEST(TensorDataTest, RefusesSizesThatLie) {
  ExpectRefusedTensor(Tensor(TensorProto::FLOAT, {-1}), "negative");
  ExpectRefusedTensor(Tensor(TensorProto::FLOAT, {int64_t{1} << 40}),
                      "its shape takes");
  ExpectRefusedTensor(
      Tensor(TensorProto::FLOAT, {int64_t{1} << 32, int64_t{1} << 32, 4}),
      "too many elements");
  ExpectRefusedTensor(Tensor(TensorProto::FLOAT, std::vector<int64_t>(9, 1)),
                      "dimensions");
  TensorProto tensor = Tensor(TensorProto::FLOAT, {2});
  tensor.set_raw_data("1234567");
  ExpectRefusedTensor(tensor, "7 bytes");
  tensor.clear_raw_data();
  tensor.add_float_data(1);
  ExpectRefusedTensor(tensor, "1 numbers");
}

TEST(TensorDataTest, NamesTypesThatAreNotThere) {
  for (const int type :
       std::vector<int>{TensorProto::STRING, TensorProto::COMPLEX64, 0, 27}) {
    EXPECT_EQ(DescribeTensor(Tensor(type, {1}), {}).status().code(),
              absl::StatusCode::kUnimplemented);
  }
  EXPECT_THAT(
      std::string(DTypeFromOnnx(TensorProto::STRING).status().message()),
      HasSubstr("STRING"));
}

TensorProto External(const std::string& offset, const std::string& length) {
  TensorProto tensor = Tensor(TensorProto::FLOAT, {2});
  tensor.set_data_location(TensorProto::EXTERNAL);
  const auto add = [&tensor](const char* key, const std::string& value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", "weights");
  if (!offset.empty()) add("offset", offset);
  if (!length.empty()) add("length", length);
  return tensor;
}

TEST(TensorDataTest, ExternalDataMustLieInsideTheFile) {
  const ScratchFolder folder;
  std::ofstream(folder.path() + "/weights") << Raw<float>({1, 2, 3});
  const auto files = ExternalFiles::Beneath(folder.path());
  const auto host = ReadTensor(External("4", "8"), files);
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_THAT(host->numbers, ElementsAre(2, 3));
  EXPECT_TRUE(DescribeTensor(External("", ""), files).ok());
  for (const auto& [offset, length] :
       std::vector<std::pair<std::string, std::string>>{
           {"8", ""},
           {"4", "4"},
           {"-4", ""},
           {"18446744073709551615", ""},
           {"18446744073709551612", "8"},
           {"4k", ""}}) {
    EXPECT_EQ(DescribeTensor(External(offset, length), files).status().code(),
              absl::StatusCode::kInvalidArgument)
        << offset << " " << length;
  }
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
