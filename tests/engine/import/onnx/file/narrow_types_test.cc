#include "engine/import/onnx/file/narrow_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

const NarrowType& Named(const std::string& name) {
  for (int data_type = 17; data_type <= 26; ++data_type) {
    const NarrowType* type = FindNarrowType(data_type);
    if (type != nullptr && type->name == name) return *type;
  }
  ADD_FAILURE() << name;
  return *FindNarrowType(17);
}

TEST(NarrowTypesTest, OtherTypesAreNotFound) {
  EXPECT_EQ(FindNarrowType(1), nullptr);
  EXPECT_EQ(FindNarrowType(16), nullptr);
  EXPECT_EQ(FindNarrowType(27), nullptr);
  EXPECT_EQ(FindNarrowType(int64_t{17} + (int64_t{1} << 32)), nullptr);
}

// Zero, the smallest number, one and the largest one, as the standard has them.
TEST(NarrowTypesTest, CodesOfFloat8StandForTheirNumbers) {
  const auto numbers = [](const char* name, std::vector<unsigned> codes) {
    std::vector<double> result;
    for (unsigned code : codes) {
      result.push_back(NarrowNumber(Named(name), code));
    }
    return result;
  };
  EXPECT_THAT(numbers("FLOAT8E4M3FN", {0, 1, 0x38, 0x7e, 0xb8}),
              ElementsAre(0, 0x1p-9, 1, 448, -1));
  EXPECT_THAT(numbers("FLOAT8E4M3FNUZ", {0, 1, 0x40, 0x7f, 0xc0}),
              ElementsAre(0, 0x1p-10, 1, 240, -1));
  EXPECT_THAT(numbers("FLOAT8E5M2", {0, 1, 0x3c, 0x7b, 0xbc, 0x7c, 0xfc}),
              ElementsAre(0, 0x1p-16, 1, 57344, -1, INFINITY, -INFINITY));
  EXPECT_THAT(numbers("FLOAT8E5M2FNUZ", {0, 1, 0x40, 0x7f, 0xc0}),
              ElementsAre(0, 0x1p-17, 1, 57344, -1));
  EXPECT_THAT(numbers("FLOAT4E2M1", {0, 1, 2, 3, 7, 15}),
              ElementsAre(0, 0.5, 1, 1.5, 6, -6));
  EXPECT_THAT(numbers("FLOAT8E8M0", {0, 127, 254}),
              ElementsAre(0x1p-127, 1, 0x1p127));
}

TEST(NarrowTypesTest, EachTypeHasItsCodesForNan) {
  const auto nans = [](const char* name) {
    std::vector<unsigned> codes;
    for (unsigned code = 0; code < 1u << Named(name).bits; ++code) {
      if (std::isnan(NarrowNumber(Named(name), code))) codes.push_back(code);
    }
    return codes;
  };
  EXPECT_THAT(nans("FLOAT8E4M3FN"), ElementsAre(0x7f, 0xff));
  EXPECT_THAT(nans("FLOAT8E4M3FNUZ"), ElementsAre(0x80));
  EXPECT_THAT(nans("FLOAT8E5M2"),
              ElementsAre(0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff));
  EXPECT_THAT(nans("FLOAT8E5M2FNUZ"), ElementsAre(0x80));
  EXPECT_THAT(nans("FLOAT4E2M1"), ElementsAre());
  EXPECT_THAT(nans("FLOAT8E8M0"), ElementsAre(0xff));
}

// No number may change when it is held in the wider type.
TEST(NarrowTypesTest, EveryNumberFitsTheTypeThatHoldsIt) {
  for (int data_type = 17; data_type <= 26; ++data_type) {
    const NarrowType& type = *FindNarrowType(data_type);
    for (unsigned code = 0; code < 1u << type.bits; ++code) {
      const double x = NarrowNumber(type, code);
      if (std::isnan(x)) continue;
      EXPECT_EQ(RoundToDType(type.held_as, x), x) << type.name << " " << code;
      if (type.is_rounded_to() && std::isfinite(x)) {
        EXPECT_LE(std::abs(x), type.real.largest);
      }
    }
  }
}

std::vector<double> Copied(const char* name, std::vector<std::byte> from,
                           size_t elements) {
  const NarrowType& type = Named(name);
  EXPECT_EQ(type.stored_bytes(elements), from.size());
  std::vector<std::byte> to(elements * SizeOf(type.held_as));
  CopyNarrow(type, from, absl::MakeSpan(to));
  std::vector<double> numbers(elements);
  ReadAsDoubles(type.held_as, to.data(), 1, absl::MakeSpan(numbers));
  return numbers;
}

TEST(NarrowTypesTest, TheFirstElementHasTheLowestBits) {
  EXPECT_THAT(Copied("INT4", {std::byte{0x7f}, std::byte{0x08}}, 3),
              ElementsAre(-1, 7, -8));
  EXPECT_THAT(Copied("UINT4", {std::byte{0x7f}, std::byte{0x08}}, 3),
              ElementsAre(15, 7, 8));
  EXPECT_THAT(Copied("INT2", {std::byte{0b11100100}, std::byte{1}}, 5),
              ElementsAre(0, 1, -2, -1, 1));
  EXPECT_THAT(Copied("UINT2", {std::byte{0b11100100}, std::byte{1}}, 5),
              ElementsAre(0, 1, 2, 3, 1));
  EXPECT_THAT(Copied("FLOAT8E5M2", {std::byte{0x3c}, std::byte{0xc0}}, 2),
              ElementsAre(1, -2));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
