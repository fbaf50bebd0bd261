#include "server/serving/tensor/tensor_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TensorFormat MakeFormat(const std::string& name, v1::DataType type,
                        std::vector<int64_t> shape) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_data_type(type);
  for (int64_t size : shape) spec.add_shape(size);
  return *MakeTensorFormat(spec);
}

class TensorViewTest : public ::testing::Test {
 protected:
  absl::StatusOr<CheckedInputs> Check(const std::vector<TensorView>& inputs) {
    return CheckInputs(
        {.label = "'m' version 3", .formats = formats_, .max_batch_size = 4},
        inputs);
  }
  absl::Span<const std::byte> Bytes(size_t count) {
    return absl::MakeConstSpan(storage_).first(count);
  }
  std::string Error(const std::vector<TensorView>& inputs) {
    const auto checked = Check(inputs);
    EXPECT_TRUE(absl::IsInvalidArgument(checked.status())) << checked.status();
    return std::string(checked.status().message());
  }

  std::vector<std::byte> storage_{1024};
  std::vector<TensorFormat> formats_ = {
      MakeFormat("image", v1::FLOAT32, {-1, 2, 3})};
  std::vector<int64_t> shape_ = {2, 2, 3};
};

TEST_F(TensorViewTest, AcceptsExactlyWhatTheModelTakes) {
  const auto checked = Check({{"image", "FP32", shape_, Bytes(48)}});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->rows, 2u);
  EXPECT_EQ(checked->bytes[0].data(), storage_.data());
}

TEST_F(TensorViewTest, NamesAnUnknownInputAndWhatTheModelTakes) {
  EXPECT_THAT(Error({{"picture", "FP32", shape_, Bytes(48)}}),
              AllOf(HasSubstr("unexpected inference input 'picture'"),
                    HasSubstr("'m' version 3"), HasSubstr("'image'")));
}

TEST_F(TensorViewTest, NamesBothDataTypes) {
  EXPECT_THAT(Error({{"image", "INT64", shape_, Bytes(48)}}),
              AllOf(HasSubstr("'INT64'"), HasSubstr("'FP32'")));
}

TEST_F(TensorViewTest, NamesBothShapesAndDoesNotReshape) {
  const std::vector<int64_t> flat = {2, 6};
  EXPECT_THAT(Error({{"image", "FP32", flat, Bytes(48)}}),
              AllOf(HasSubstr("[-1,2,3]"), HasSubstr("[2,6]")));
}

TEST_F(TensorViewTest, RefusesARankZeroShape) {
  EXPECT_THAT(Error({{"image", "FP32", {}, Bytes(4)}}), HasSubstr("got []"));
}

TEST_F(TensorViewTest, NamesBothByteCounts) {
  EXPECT_THAT(Error({{"image", "FP32", shape_, Bytes(47)}}),
              AllOf(HasSubstr("byte size 47"), HasSubstr("expecting 48")));
  EXPECT_THAT(Error({{"image", "FP32", shape_, Bytes(49)}}),
              HasSubstr("byte size 49"));
}

TEST_F(TensorViewTest, RefusesBatchesOutsideOneToTheLimit) {
  for (int64_t rows : {int64_t{0}, int64_t{-1}, int64_t{5},
                       std::numeric_limits<int64_t>::max(),
                       std::numeric_limits<int64_t>::min()}) {
    const std::vector<int64_t> shape = {rows, 2, 3};
    EXPECT_THAT(Error({{"image", "FP32", shape, Bytes(0)}}),
                HasSubstr("batch-size must be <= 4"));
  }
}

TEST_F(TensorViewTest, RefusesRepeatedAndMissingInputs) {
  const TensorView image = {"image", "FP32", shape_, Bytes(48)};
  EXPECT_THAT(Error({image, image}),
              HasSubstr("input 'image' already exists in request"));
  EXPECT_THAT(Error({}), HasSubstr("expected 1 inputs but got 0"));
}

TEST_F(TensorViewTest, RefusesDifferentRowCounts) {
  formats_.push_back(MakeFormat("mask", v1::BOOL, {-1, 3}));
  const std::vector<int64_t> mask_shape = {1, 3};
  EXPECT_THAT(Error({{"image", "FP32", shape_, Bytes(48)},
                     {"mask", "BOOL", mask_shape, Bytes(3)}}),
              AllOf(HasSubstr("'mask' has 1 row,"), HasSubstr("request 2")));
}

TEST_F(TensorViewTest, PutsInputsInTheModelsOrder) {
  formats_.push_back(MakeFormat("mask", v1::BOOL, {-1, 3}));
  const std::vector<int64_t> mask_shape = {2, 3};
  const auto checked = Check({{"mask", "BOOL", mask_shape, Bytes(6)},
                              {"image", "FP32", shape_, Bytes(48)}});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->bytes[0].size(), 48u);
  EXPECT_EQ(checked->bytes[1].size(), 6u);
}

TEST_F(TensorViewTest, WidenedTypesAreSentInTheirOwnWidth) {
  formats_ = {MakeFormat("ids", v1::UINT16, {-1, 3})};
  EXPECT_EQ(formats_[0].RowBytes({}), 12u);
  EXPECT_EQ(formats_[0].SentRowBytes({}), 6u);
  const std::vector<int64_t> shape = {2, 3};
  EXPECT_TRUE(Check({{"ids", "UINT16", shape, Bytes(12)}}).ok());
  EXPECT_THAT(Error({{"ids", "UINT16", shape, Bytes(24)}}),
              AllOf(HasSubstr("byte size 24"), HasSubstr("expecting 12")));
  EXPECT_THAT(Error({{"ids", "INT32", shape, Bytes(24)}}),
              AllOf(HasSubstr("'INT32'"), HasSubstr("expects 'UINT16'")));
  formats_ = {MakeFormat("ids", v1::INT64, {-1, 3})};
  EXPECT_EQ(formats_[0].SentRowBytes({}), formats_[0].RowBytes({}));
}

TEST_F(TensorViewTest, AUint64ThatNoInt64IsIsNamed) {
  formats_ = {MakeFormat("ids", v1::UINT64, {-1, 2})};
  const std::vector<int64_t> shape = {1, 2};
  std::fill(storage_.begin() + 8, storage_.begin() + 15, std::byte{255});
  storage_[15] = std::byte{127};
  EXPECT_TRUE(Check({{"ids", "UINT64", shape, Bytes(16)}}).ok());
  storage_[15] = std::byte{128};
  EXPECT_THAT(Error({{"ids", "UINT64", shape, Bytes(16)}}),
              AllOf(HasSubstr("element 1 of input 'ids' for model 'm'"),
                    HasSubstr("is 9295429630892703743; an element of type "
                              "UINT64 is computed as INT64"),
                    HasSubstr("up to 9223372036854775807")));
}

TEST_F(TensorViewTest, AnElementOfBoolIsZeroOrOne) {
  formats_ = {MakeFormat("mask", v1::BOOL, {-1, 3})};
  const std::vector<int64_t> shape = {2, 3};
  storage_[1] = std::byte{1};
  EXPECT_TRUE(Check({{"mask", "BOOL", shape, Bytes(6)}}).ok());
  storage_[4] = std::byte{2};
  EXPECT_THAT(Error({{"mask", "BOOL", shape, Bytes(6)}}),
              AllOf(HasSubstr("element 4 of input 'mask'"),
                    HasSubstr("is the byte 2"), HasSubstr("0 or 1")));
  formats_ = {MakeFormat("mask", v1::UINT8, {-1, 3})};
  EXPECT_TRUE(Check({{"mask", "UINT8", shape, Bytes(6)}}).ok())
      << "numbers may be any byte";
}

TEST(MakeTensorFormatTest, RefusesSpecsThatCannotBeServed) {
  v1::TensorSpec spec;
  spec.set_name("x");
  spec.add_shape(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeTensorFormat(spec).status()));
  spec.set_data_type(v1::FLOAT32);
  EXPECT_TRUE(MakeTensorFormat(spec).ok());
  spec.add_shape(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeTensorFormat(spec).status()));
  spec.set_shape(1, int64_t{1} << 62);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeTensorFormat(spec).status()));
  spec.set_shape(1, int64_t{1} << 30);
  spec.add_shape(int64_t{1} << 34);  // the product overflows 2^64
  EXPECT_TRUE(absl::IsInvalidArgument(MakeTensorFormat(spec).status()));
}

TEST_F(TensorViewTest, WithoutABatchTheWholeShapeIsTheModels) {
  formats_ = {MakeFormat("image", v1::FLOAT32, {2, 3}),
              MakeFormat("scale", v1::INT64, {})};
  EXPECT_EQ(ShapeText(formats_[0]), "[2,3]");
  EXPECT_EQ(formats_[0].row_bytes, 24u);
  const std::vector<int64_t> shape = {2, 3};
  const TensorView scale = {"scale", "INT64", {}, Bytes(8)};
  auto checked = Check({{"image", "FP32", shape, Bytes(24)}, scale});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->rows, 1u);
  const std::vector<int64_t> other = {1, 2, 3};
  EXPECT_TRUE(absl::IsInvalidArgument(
      Check({{"image", "FP32", other, Bytes(24)}, scale}).status()));
}

// ids and mask are [-1, sequence], and sequence is rounded up to 4 or 8.
class SizedViewTest : public ::testing::Test {
 protected:
  SizedViewTest() {
    for (const char* name : {"ids", "mask"}) {
      v1::TensorSpec spec;
      spec.set_name(name);
      spec.set_data_type(v1::INT64);
      spec.add_shape(-1);
      spec.add_shape(-1);
      v1::VariableDimension* variable = spec.add_variable();
      variable->set_axis(1);
      variable->set_name("sequence");
      variable->set_maximum(8);
      formats_.push_back(*MakeTensorFormat(spec, dimensions_));
    }
  }
  absl::StatusOr<CheckedInputs> Check(std::vector<int64_t> ids,
                                      std::vector<int64_t> mask) {
    const auto bytes = [&](const std::vector<int64_t>& shape) {
      return absl::MakeConstSpan(storage_).first(
          static_cast<size_t>(shape[0] * shape[1]) * 8);
    };
    return CheckInputs({.label = "'m' version 3",
                        .formats = formats_,
                        .max_batch_size = 4,
                        .dimensions = dimensions_},
                       {{"ids", "INT64", ids, bytes(ids)},
                        {"mask", "INT64", mask, bytes(mask)}});
  }

  std::vector<std::byte> storage_{4096};
  std::vector<SizedDimension> dimensions_ = {{"sequence", 4, 8, {4, 8}, true}};
  std::vector<TensorFormat> formats_;
};

TEST_F(SizedViewTest, SizesAreRoundedUp) {
  const auto checked = Check({2, 5}, {2, 5});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->rows, 2u);
  EXPECT_EQ(checked->sizes, std::vector<int64_t>{5});
  EXPECT_EQ(checked->served, std::vector<int64_t>{8});
  EXPECT_EQ(formats_[0].RowBytes({}), 64u);
  EXPECT_EQ(formats_[0].RowBytes(checked->sizes), 40u);
  EXPECT_EQ(ShapeText(formats_[0]), "[-1,-1]");
}

TEST_F(SizedViewTest, InputsMustAgree) {
  const auto checked = Check({2, 5}, {2, 6});
  EXPECT_THAT(std::string(checked.status().message()),
              AllOf(HasSubstr("'mask' has 6 for dimension 'sequence'"),
                    HasSubstr("another place of the request 5")));
}

TEST_F(SizedViewTest, SizesMustBeServed) {
  EXPECT_THAT(std::string(Check({2, 9}, {2, 9}).status().message()),
              HasSubstr("'sequence' of input 'ids' is 9"));
}

TEST_F(SizedViewTest, DimensionsMustBeKnown) {
  v1::TensorSpec spec;
  spec.set_name("x");
  spec.set_data_type(v1::FLOAT32);
  spec.add_shape(-1);
  v1::VariableDimension* variable = spec.add_variable();
  variable->set_name("width");
  variable->set_maximum(4);
  EXPECT_TRUE(
      absl::IsInvalidArgument(MakeTensorFormat(spec, dimensions_).status()));
  variable->set_name("sequence");
  const auto format = MakeTensorFormat(spec, dimensions_);
  ASSERT_TRUE(format.ok());
  EXPECT_FALSE(format->batched);  // its first dimension varies
  variable->set_axis(1);
  EXPECT_TRUE(
      absl::IsInvalidArgument(MakeTensorFormat(spec, dimensions_).status()));
}

// mask [-1, past + sequence], ids [-1, sequence] and cache [-1, past, 2].
class DerivedViewTest : public ::testing::Test {
 protected:
  DerivedViewTest() {
    Add("mask", {-1, -1}, "", "past + sequence", 12);
    Add("ids", {-1, -1}, "sequence", "", 4);
    Add("cache", {-1, -1, 2}, "past", "", 8);
  }
  void Add(const std::string& name, const std::vector<int64_t>& shape,
           const std::string& dimension, const std::string& size,
           int64_t maximum) {
    v1::TensorSpec spec;
    spec.set_name(name);
    spec.set_data_type(v1::INT8);
    spec.mutable_shape()->Add(shape.begin(), shape.end());
    v1::VariableDimension* variable = spec.add_variable();
    variable->set_axis(1);
    variable->set_name(dimension);
    variable->set_size(size);
    variable->set_maximum(maximum);
    const auto format = MakeTensorFormat(spec, dimensions_);
    ASSERT_TRUE(format.ok()) << format.status();
    formats_.push_back(*format);
  }
  absl::StatusOr<CheckedInputs> Check(int64_t mask, int64_t ids,
                                      int64_t cache) {
    const std::vector<int64_t> shapes[] = {{3, mask}, {3, ids}, {3, cache, 2}};
    const absl::Span<const std::byte> bytes(storage_);
    return CheckInputs(
        {.label = "'m' version 3",
         .formats = formats_,
         .max_batch_size = 4,
         .dimensions = dimensions_},
        {{"mask", "INT8", shapes[0],
          bytes.first(static_cast<size_t>(3 * mask))},
         {"ids", "INT8", shapes[1], bytes.first(static_cast<size_t>(3 * ids))},
         {"cache", "INT8", shapes[2],
          bytes.first(static_cast<size_t>(6 * cache))}});
  }

  std::vector<std::byte> storage_{256};
  std::vector<SizedDimension> dimensions_ = {{"past", 0, 8, {}, false},
                                             {"sequence", 1, 4, {1, 4}, true}};
  std::vector<TensorFormat> formats_;
};

TEST_F(DerivedViewTest, SizesFollowFromThoseOfOtherInputs) {
  const auto checked = Check(8, 3, 5);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->sizes, (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(checked->served, (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(formats_[0].RowShape(checked->served), std::vector<int64_t>{9});
  EXPECT_EQ(formats_[0].RowBytes({}), 12u);
  EXPECT_EQ(ShapeText(formats_[0]), "[-1,-1]");
}

TEST_F(DerivedViewTest, ASizeMayBeZero) {
  const auto checked = Check(1, 1, 0);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->sizes, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(formats_[2].RowBytes(checked->sizes), 0u);
  EXPECT_TRUE(checked->bytes[2].empty());
}

TEST_F(DerivedViewTest, AContradictionNamesInputAxisSizeExpressionAndValue) {
  EXPECT_THAT(
      std::string(Check(9, 3, 5).status().message()),
      HasSubstr("input 'mask' for model 'm' version 3 has 9 for dimension 1, "
                "which must be past + sequence: 8 for past=5, sequence=3"));
  EXPECT_THAT(std::string(Check(4, 4, 9).status().message()),
              HasSubstr("'past' of input 'cache' is 9"));
}

TEST_F(DerivedViewTest, ANegativeSizeIsRefused) {
  Add("rest", {-1, -1}, "", "past - sequence", 7);
  EXPECT_EQ(formats_[3].RowShape({5, 3}), std::vector<int64_t>{2});
  EXPECT_FALSE(formats_[3].variable[0].SizeFor({0, 3}).ok());
  EXPECT_EQ(formats_[3].RowShape({0, 3}), std::vector<int64_t>{7});
}

TEST_F(DerivedViewTest, ExpressionsOfUnknownDimensionsAreRefused) {
  v1::TensorSpec spec;
  spec.set_name("x");
  spec.set_data_type(v1::FLOAT32);
  spec.add_shape(-1);
  spec.add_variable()->set_maximum(4);
  spec.mutable_variable(0)->set_size("past + width");
  EXPECT_THAT(
      std::string(MakeTensorFormat(spec, dimensions_).status().message()),
      HasSubstr("'width'"));
  spec.mutable_variable(0)->set_size("past +");
  EXPECT_FALSE(MakeTensorFormat(spec, dimensions_).ok());
}

class TextViewTest : public ::testing::Test {
 protected:
  TextViewTest() {
    v1::TensorSpec spec;
    spec.set_name("words");
    spec.set_data_type(v1::STRING);
    spec.add_shape(-1);
    spec.add_shape(-1);
    v1::VariableDimension& open = *spec.add_variable();
    open.set_axis(1);
    open.set_maximum(8);
    formats_ = {*MakeTensorFormat(spec)};
  }
  absl::StatusOr<CheckedInputs> Check(const std::vector<int64_t>& shape,
                                      const std::string& raw) {
    const TensorView view{
        "words", "BYTES", shape,
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(raw.data()),
                            raw.size())};
    return CheckInputs({.label = "'m' version 3",
                        .formats = formats_,
                        .max_batch_size = 4,
                        .texts = true},
                       {view});
  }
  std::vector<TensorFormat> formats_;
};

TEST_F(TextViewTest, LengthsMustGiveTheElementsOfTheShape) {
  const std::string two("\1\0\0\0a\0\0\0\0", 9);
  const auto checked = Check({1, 2}, two);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->rows, 1u);
  EXPECT_EQ(checked->shapes[0], (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(std::string(Check({1, 3}, two).status().message()),
              HasSubstr("input 'words' for model 'm' version 3 has 9 bytes"));
  EXPECT_TRUE(absl::IsInvalidArgument(Check({1, 1}, two).status()));
}

TEST_F(TextViewTest, OpenSizesHaveALimit) {
  EXPECT_TRUE(Check({1, 0}, "").ok());
  EXPECT_THAT(std::string(Check({1, 9}, "").status().message()),
              HasSubstr("has 9 for dimension 1; the limit is 8"));
  EXPECT_TRUE(absl::IsInvalidArgument(Check({1, -1}, "").status()));
}

}  // namespace
}  // namespace gpupool::server
