#include "engine/data/npz_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Member;
using files::Npy;
using files::Zip;
using testing::ElementsAre;
using testing::HasSubstr;

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
    EXPECT_THAT(table->features, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(table->labels, ElementsAre(0, 1));
  }
}

TEST(NpzReaderTest, ListsTheArraysWhenOneIsMissing) {
  auto table = ReadNpz(Zip(Members(), true), {.features_array = "images"}, {});
  EXPECT_THAT(table.status().message(),
              HasSubstr("no array \"images\"; it has: x.npy, y.npy"));
}

TEST(NpzReaderTest, NamesTheArrayThatIsBroken) {
  auto table =
      ReadNpz(Zip({{"x.npy", "junk and more"}, Members()[1]}, true), {}, {});
  EXPECT_THAT(table.status().message(), HasSubstr("array \"x\""));
}

TEST(NpzReaderTest, ChecksTheCrc) {
  auto table = ReadNpz(Zip(Members(), false, 1), {}, {});
  EXPECT_THAT(table.status().message(), HasSubstr("checksum differs"));
}

}  // namespace
}  // namespace gpupool::engine
