#include "server/http/rest/json_elements.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the values of packed elements.
template <typename T>
std::vector<T> Unpacked(const std::string& packed) {
  std::vector<T> values(packed.size() / sizeof(T));
  if (!packed.empty()) std::memcpy(values.data(), packed.data(), packed.size());
  return values;
}

class JsonElementsTest : public ::testing::Test {
 protected:
  // Packs the elements as a tensor "x" with one dimension.
  absl::StatusOr<std::string> Pack(const std::string& datatype) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(elements_.size())};
    return elements_.Pack({"x", datatype, shape});
  }

  // Expects that one element of the number is refused, with these words.
  static void ExpectMisfit(const std::string& datatype, JsonElements elements,
                           const std::string& words) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(elements.size())};
    const auto packed = elements.Pack({"x", datatype, shape});
    ASSERT_TRUE(absl::IsInvalidArgument(packed.status())) << datatype;
    EXPECT_THAT(std::string(packed.status().message()),
                AllOf(HasSubstr("input 'x': element 0 is "), HasSubstr(words)))
        << datatype;
  }

  // Returns a flat list with one number.
  static JsonElements One(int64_t value) {
    JsonElements elements;
    elements.Open();
    if (value < 0) {
      elements.AddNegative(value);
    } else {
      elements.AddUnsigned(static_cast<uint64_t>(value));
    }
    elements.Close();
    return elements;
  }

  static JsonElements OneFloat(double value) {
    JsonElements elements;
    elements.Open();
    elements.AddFloat(value);
    elements.Close();
    return elements;
  }

  template <typename T>
  static void ExpectValue(const std::string& datatype,
                          const JsonElements& elements, T value) {
    const std::vector<int64_t> shape = {1};
    const auto packed = elements.Pack({"x", datatype, shape});
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ(Unpacked<T>(*packed), std::vector<T>{value}) << datatype;
  }

  // Expects that the limits of the type fit, and their neighbours do not.
  template <typename T>
  static void ExpectLimits(const std::string& datatype,
                           const std::string& words) {
    constexpr int64_t kLeast = std::numeric_limits<T>::min();
    constexpr int64_t kMost = std::numeric_limits<T>::max();
    ExpectValue<T>(datatype, One(kLeast), std::numeric_limits<T>::min());
    ExpectValue<T>(datatype, One(kMost), std::numeric_limits<T>::max());
    ExpectMisfit(datatype, One(kLeast - 1), words);
    ExpectMisfit(datatype, One(kMost + 1), words);
  }

  JsonElements elements_;
};

TEST_F(JsonElementsTest, IntegersFitTheirLimits) {
  ExpectLimits<int8_t>("INT8", "INT8 takes integers from -128 to 127");
  ExpectLimits<uint8_t>("UINT8", "UINT8 takes integers from 0 to 255");
  ExpectLimits<int16_t>("INT16", "from -32768 to 32767");
  ExpectLimits<uint16_t>("UINT16", "from 0 to 65535");
  ExpectLimits<int32_t>("INT32", "from -2147483648 to 2147483647");
  ExpectLimits<uint32_t>("UINT32", "from 0 to 4294967295");
}

TEST_F(JsonElementsTest, IntegersOf64BitsFitTheirLimits) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr uint64_t kMostUnsigned = std::numeric_limits<uint64_t>::max();
  ExpectValue<int64_t>("INT64", One(kLeast), kLeast);
  ExpectValue<int64_t>("INT64", One(kMost), kMost);
  ExpectMisfit("UINT64", One(-1), "is -1; UINT64 takes integers from 0 to");
  elements_.Open();
  elements_.AddUnsigned(kMostUnsigned);
  elements_.Close();
  ExpectValue<uint64_t>("UINT64", elements_, kMostUnsigned);
  ExpectMisfit("INT64", elements_, "is 18446744073709551615; INT64 takes");
}

TEST_F(JsonElementsTest, IntegersAreNoFractionsAndNoBooleans) {
  ExpectMisfit("INT32", OneFloat(1.5), "is 1.5; INT32 takes");
  elements_.Open();
  elements_.AddBool(true);
  elements_.Close();
  ExpectMisfit("INT32", elements_, "is true; INT32 takes");
  ExpectMisfit("FP32", elements_, "is true; FP32 takes");
}

TEST_F(JsonElementsTest, MinusZeroKeepsItsSignAsAFloat) {
  elements_.Open();
  elements_.AddNegative(0);
  elements_.Close();
  ExpectValue<uint8_t>("UINT8", elements_, 0);
  const std::vector<int64_t> shape = {1};
  const auto floats = Unpacked<float>(*elements_.Pack({"x", "FP32", shape}));
  EXPECT_TRUE(floats[0] == 0 && std::signbit(floats[0]));
  const auto doubles = Unpacked<double>(*elements_.Pack({"x", "FP64", shape}));
  EXPECT_TRUE(doubles[0] == 0 && std::signbit(doubles[0]));
}

TEST_F(JsonElementsTest, BooleansAreAlsoOneAndZero) {
  elements_.Open();
  elements_.AddBool(true);
  elements_.AddBool(false);
  elements_.AddUnsigned(1);
  elements_.AddUnsigned(0);
  elements_.Close();
  EXPECT_EQ(*Pack("BOOL"), std::string("\1\0\1\0", 4));
  ExpectMisfit("BOOL", One(2), "is 2; BOOL takes true, false, 1 and 0");
  ExpectMisfit("BOOL", One(-1), "is -1");
}

TEST_F(JsonElementsTest, TheIndexOfAMisfitCountsInRowMajorOrder) {
  elements_.Open();
  for (int value : {1, 300}) {
    elements_.Open();
    elements_.AddUnsigned(7);
    elements_.AddUnsigned(static_cast<uint64_t>(value));
    elements_.Close();
  }
  elements_.Close();
  const std::vector<int64_t> shape = {2, 2};
  EXPECT_EQ(elements_.Pack({"x", "UINT8", shape}).status().message(),
            "input 'x': element 3 is 300; UINT8 takes integers from 0 to 255");
}

TEST_F(JsonElementsTest, FloatsUpToTheLargestAreTaken) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  ExpectValue<float>("FP32", OneFloat(0.1), 0.1f);
  ExpectValue<float>("FP32", OneFloat(-kLargest), -kLargest);
  // The shortest text of the largest number is above it.
  ExpectValue<float>("FP32", OneFloat(3.4028235e38), kLargest);
  ExpectMisfit("FP32", OneFloat(3.41e38), "FP32 takes numbers up to");
  ExpectMisfit("FP32", OneFloat(-1e39), "is -1e+39; FP32 takes");
  ExpectValue<double>("FP64", OneFloat(1e39), 1e39);
  ExpectValue<double>("FP64", One(-7), -7.0);
  ExpectValue<float>("FP32", One(7), 7.0f);
}

TEST_F(JsonElementsTest, NanAndInfinityAreTexts) {
  elements_.Open();
  for (const char* text : {"NaN", "Infinity", "-Infinity"}) {
    elements_.AddText(text);
  }
  elements_.Close();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto floats = Unpacked<float>(*Pack("FP32"));
  EXPECT_TRUE(std::isnan(floats[0]));
  EXPECT_EQ(floats[1], kInfinity);
  EXPECT_EQ(floats[2], -kInfinity);
  const auto doubles = Unpacked<double>(*Pack("FP64"));
  EXPECT_TRUE(std::isnan(doubles[0]));
  EXPECT_EQ(doubles[2], -kInfinity);
  ExpectMisfit("INT32", elements_, "is 'NaN'; INT32 takes");
}

TEST_F(JsonElementsTest, OtherTextsAreNoNumbers) {
  elements_.Open();
  elements_.AddText("7");
  elements_.Close();
  ExpectMisfit("FP32", elements_, "is '7'; FP32 takes");
  ExpectMisfit("FP64", elements_, "is '7'; FP64 takes");
}

TEST_F(JsonElementsTest, TextsHaveTheirLengthsBeforeThem) {
  elements_.Open();
  elements_.AddText("ab");
  elements_.AddText("");
  elements_.Close();
  EXPECT_EQ(*Pack("BYTES"), std::string("\2\0\0\0ab\0\0\0\0", 10));
  ExpectMisfit("BYTES", One(1), "is 1; BYTES takes texts");
}

TEST_F(JsonElementsTest, SixteenBitFloatsNeedBinaryData) {
  elements_ = One(1);
  for (const char* datatype : {"FP16", "BF16"}) {
    EXPECT_THAT(std::string(Pack(datatype).status().message()),
                AllOf(HasSubstr("input 'x'"), HasSubstr(datatype),
                      HasSubstr("binary_data_size")));
  }
}

TEST_F(JsonElementsTest, UnknownDatatypesAreNamedWithTheKnown) {
  elements_ = One(1);
  EXPECT_THAT(std::string(Pack("FLOAT").status().message()),
              AllOf(HasSubstr("'FLOAT'"), HasSubstr("FP32"), HasSubstr("BOOL"),
                    HasSubstr("BF16")));
}

TEST_F(JsonElementsTest, TheNumberOfElementsIsThatOfTheShape) {
  elements_ = One(1);
  const std::pair<std::vector<int64_t>, const char*> rows[] = {
      {{2}, "has 1 elements, the shape [2] takes 2"},
      {{0}, "takes 0"},
      {{-1}, "shape [-1] has a size below 0"},
      {{int64_t{1} << 62, 4}, "too large"},
      {{-1, -1}, "below 0"}};
  for (const auto& [shape, words] : rows) {
    const auto packed = elements_.Pack({"x", "FP32", shape});
    EXPECT_TRUE(absl::IsInvalidArgument(packed.status())) << words;
    EXPECT_THAT(std::string(packed.status().message()), HasSubstr(words));
  }
  EXPECT_TRUE(elements_.Pack({"x", "FP32", {}}).ok());  // a scalar
}

TEST_F(JsonElementsTest, AFlatListFitsEveryShapeOfItsSize) {
  elements_.Open();
  for (uint64_t i = 0; i < 6; ++i) elements_.AddUnsigned(i);
  elements_.Close();
  const std::vector<int64_t> shapes[] = {{6}, {2, 3}, {1, 6, 1}};
  for (const auto& shape : shapes) {
    EXPECT_EQ(Unpacked<uint8_t>(*elements_.Pack({"x", "UINT8", shape})),
              (std::vector<uint8_t>{0, 1, 2, 3, 4, 5}));
  }
}

TEST_F(JsonElementsTest, ListsInListsHaveTheShapeOfTheTensor) {
  elements_.Open();
  for (int row = 0; row < 2; ++row) {
    elements_.Open();
    for (int i = 0; i < 3; ++i) elements_.AddUnsigned(1);
    elements_.Close();
  }
  elements_.Close();
  const std::vector<int64_t> own = {2, 3}, other = {3, 2}, flat = {6};
  EXPECT_TRUE(elements_.Pack({"x", "UINT8", own}).ok());
  for (const auto& shape : {other, flat}) {
    EXPECT_THAT(
        std::string(elements_.Pack({"x", "UINT8", shape}).status().message()),
        HasSubstr("lists in the shape [2,3]"));
  }
}

TEST_F(JsonElementsTest, EmptyListsAreEmptyTensors) {
  elements_.Open();
  elements_.Close();
  EXPECT_EQ(*Pack("FP32"), "");
  JsonElements rows;
  rows.Open();
  for (int i = 0; i < 2; ++i) {
    rows.Open();
    rows.Close();
  }
  rows.Close();
  const std::vector<int64_t> shape = {2, 0};
  EXPECT_TRUE(rows.Pack({"x", "FP32", shape}).ok());
}

TEST_F(JsonElementsTest, ListsOfUnequalLengthsAreRefused) {
  elements_.Open();
  elements_.Open();
  elements_.AddUnsigned(1);
  elements_.Close();
  elements_.Open();
  elements_.Close();
  elements_.Close();
  EXPECT_THAT(std::string(Pack("FP32").status().message()),
              HasSubstr("lists of 1 and of 0 elements"));
}

TEST_F(JsonElementsTest, AnElementBesideAListIsRefused) {
  elements_.Open();
  elements_.Open();
  elements_.AddUnsigned(1);
  elements_.Close();
  elements_.AddUnsigned(2);
  elements_.Close();
  EXPECT_THAT(std::string(Pack("FP32").status().message()),
              HasSubstr("element 1 of 'data' stands beside a list"));
  JsonElements other;
  other.Open();
  other.AddUnsigned(1);
  other.Open();
  other.Close();
  other.Close();
  const std::vector<int64_t> shape = {1};
  EXPECT_THAT(std::string(other.Pack({"x", "FP32", shape}).status().message()),
              HasSubstr("a list beside element 1"));
}

TEST_F(JsonElementsTest, NullIsNoElement) {
  elements_.Open();
  elements_.AddUnsigned(1);
  elements_.AddOther("null");
  elements_.AddUnsigned(1);
  elements_.Close();
  EXPECT_THAT(std::string(Pack("FP32").status().message()),
              HasSubstr("element 1 of 'data' is null"));
}

TEST_F(JsonElementsTest, TheDepthHasALimit) {
  for (size_t i = 0; i <= kDeepestData; ++i) elements_.Open();
  for (size_t i = 0; i <= kDeepestData; ++i) elements_.Close();
  EXPECT_THAT(std::string(Pack("FP32").status().message()),
              HasSubstr("32 deep"));
}

}  // namespace
}  // namespace gpupool::server
