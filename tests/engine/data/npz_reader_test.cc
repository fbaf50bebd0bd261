#include "engine/data/npz_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Little;
using files::Member;
using files::Npy;
using files::Zip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Member>& Members() {
  static const std::vector<Member> members = {
      {"x.npy", Npy("|u1", "(2, 2)", "\1\2\3\4")},
      {"y.npy", Npy("|u1", "(2,)", std::string("\0\1", 2))}};
  return members;
}

TEST(NpzReaderTest, ReadsStoredAndDeflatedArchives) {
  for (bool deflated : {false, true}) {
    auto table = ReadNpz(Zip(Members(), deflated), {}, {});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1));
  }
}

TEST(NpzReaderTest, ListsTheArraysWhenOneIsMissing) {
  auto table = ReadNpz(Zip(Members(), true), {.features_array = "images"}, {});
  EXPECT_THAT(table.status().message(),
              HasSubstr("no array \"images\"; it has: x.npy, y.npy"));
}

TEST(NpzReaderTest, RefusesAnArrayThatIsThereTwice) {
  const auto error = [](const Member& more) {
    std::vector<Member> members = Members();
    members.push_back(more);
    const auto table = ReadNpz(Zip(members, true), {}, {});
    EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(table.status().message());
  };
  const std::string other = Npy("|u1", "(2, 2)", "\5\6\7\x08");
  EXPECT_THAT(error({"x.npy", other}), HasSubstr("array \"x\" more than once"));
  // Both are called "x".
  EXPECT_THAT(error({"x", other}), HasSubstr("array \"x\" more than once"));
  // Nothing reads the array.
  std::vector<Member> members = Members();
  members.insert(members.end(), {{"z.npy", other}, {"z.npy", other}});
  EXPECT_THAT(ReadNpz(Zip(members, false), {}, {}).status().message(),
              HasSubstr("array \"z\" more than once"));
}

// numpy.savez stores the arrays "x" and "x.npy" in these members.
TEST(NpzReaderTest, ArraysWhoseNamesDifferInTheSuffixAreTwoArrays) {
  std::vector<Member> members = Members();
  members.push_back({"x.npy.npy", Npy("|u1", "(2, 2)", "\5\6\7\x08")});
  for (const bool suffix : {false, true}) {
    const auto table = ReadNpz(Zip(members, true),
                               {.features_array = suffix ? "x.npy" : "x"}, {});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(Floats(table->features())[0], suffix ? 5 : 1);
  }
}

TEST(NpzReaderTest, NamesTheArrayThatIsBroken) {
  auto table =
      ReadNpz(Zip({{"x.npy", "junk and more"}, Members()[1]}, true), {}, {});
  EXPECT_THAT(table.status().message(), HasSubstr("array \"x\""));
}

TEST(NpzReaderTest, ReadsSeveralArraysByTheirNames) {
  const std::vector<Member> members = {
      {"ids.npy", Npy("<i8", "(2, 3)",
                      Little(1, 8) + Little(2, 8) + Little(3, 8) +
                          Little(4, 8) + Little(5, 8) + Little(6, 8))},
      {"mask.npy", Npy("|b1", "(2, 3)", std::string("\1\1\0\1\0\0", 6))},
      {"y.npy", Npy("|u1", "(2, 1)", std::string("\0\1", 2))},
      {"score.npy", Npy("<f4", "(2, 2)", std::string(16, '\0'))}};
  NpzOptions options;
  options.input_arrays = {{"input_ids", "ids"}, {"attention_mask", "mask"}};
  options.target_arrays = {{"label", "y"}, {"score", "score"}};
  for (bool deflated : {false, true}) {
    auto table = ReadNpz(Zip(members, deflated), options, {});
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(table->inputs.size(), 2u);
    EXPECT_EQ(table->inputs[0].name, "attention_mask");
    EXPECT_EQ(table->inputs[0].type, ElementType::kUint8);
    EXPECT_EQ(table->inputs[1].name, "input_ids");
    EXPECT_EQ(table->inputs[1].type, ElementType::kInt64);
    EXPECT_THAT(Floats(table->inputs[1]), ElementsAre(1, 2, 3, 4, 5, 6));
    ASSERT_EQ(table->targets.size(), 2u);
    EXPECT_EQ(table->targets[0].name, "label");
    EXPECT_TRUE(table->targets[0].shape.empty());
    EXPECT_EQ(table->targets[0].facts.class_count(), 2u);
    EXPECT_THAT(table->targets[1].shape, ElementsAre(2));
  }
}

TEST(NpzReaderTest, NamedArraysMustBeThereWithEquallyManyRows) {
  NpzOptions options;
  options.input_arrays = {{"a", "x"}, {"b", "z"}};
  EXPECT_THAT(ReadNpz(Zip(Members(), false), options, {}).status().message(),
              HasSubstr("no array \"z\"; it has: x.npy, y.npy"));
  std::vector<Member> members = Members();
  members.push_back({"z.npy", Npy("|u1", "(3, 1)", "\1\2\3")});
  EXPECT_EQ(ReadNpz(Zip(members, false), options, {}).status().message(),
            "input \"b\" (array \"z\"): shape [3,1] does not fit input \"a\" "
            "(array \"x\") of shape [2,2]; one entry for each of the 2 rows is "
            "needed");
  members.back().content = Npy("|u1", "(0, 1)", "");
  EXPECT_THAT(ReadNpz(Zip(members, false), options, {}).status().message(),
              HasSubstr("every dimension must be at least 1"));
}

TEST(NpzReaderTest, ChecksTheCrc) {
  auto table = ReadNpz(Zip(Members(), false, 1), {}, {});
  EXPECT_THAT(table.status().message(), HasSubstr("checksum differs"));
}

}  // namespace
}  // namespace gpupool::engine
